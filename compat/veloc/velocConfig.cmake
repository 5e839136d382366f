# SPDX-License-Identifier: BSD-3-Clause
# find_package(veloc) with CMAKE_PREFIX_PATH at this prefix: veloc::client.
include(CMakeFindDependencyMacro)
find_dependency(MPI COMPONENTS C)
get_filename_component(veloc_prefix ${CMAKE_CURRENT_LIST_DIR}/../../.. ABSOLUTE)
if(NOT TARGET veloc::client)
  add_library(veloc::client SHARED IMPORTED)
  set_target_properties(veloc::client PROPERTIES IMPORTED_LOCATION ${veloc_prefix}/lib/libveloc-client.so
                        INTERFACE_INCLUDE_DIRECTORIES ${veloc_prefix}/include INTERFACE_LINK_LIBRARIES MPI::MPI_C)
endif()
