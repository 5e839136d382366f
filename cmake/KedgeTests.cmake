# SPDX-License-Identifier: BSD-3-Clause
# How tests are run: limits, environment, and how many cores each takes.
#
# A test is an ordinary ctest test with a time limit and the label of its folder. kedge_mpi_test() and
# kedge_script_test() add what programs under mpirun and shell scripts need.

# The limit is for tests that hang, not for slow ones: machines are shared.
set(KEDGE_TEST_TIMEOUT 600 CACHE STRING "Seconds a test may take; twice as many under a sanitizer")

# Where nothing is known of earlier runs, those that take long begin first, so that none of them is left alone at the end.
set(KEDGE_SLOW_TESTS
    fault/test_crash job/test_no_hang_checkpoint job/test_no_hang_open job/test_no_hang_restart job/test_device_faults
    job/test_retention job/test_growth run/slurm_requeue run/ask packaging/guides mutate/sealed base/test_digest_differences
    lives/walks-1 lives/walks-2001 lives/walks-4001 lives/walks-6001 lives/moments reduce/test_gpu_finder cli/faults cli/pack job/test_cow
    reduce/test_parts reduce/test_oracle compat/veloc-bench cli/bench_versions)

set(KEDGE_TEST_SECONDS ${KEDGE_TEST_TIMEOUT})
if(KEDGE_SANITIZE)
  math(EXPR KEDGE_TEST_SECONDS "2 * ${KEDGE_TEST_TIMEOUT}")
endif()

function(kedge_test_limits name label)
  set_tests_properties(${name} PROPERTIES TIMEOUT ${KEDGE_TEST_SECONDS} LABELS "${label}")
  if(name IN_LIST KEDGE_SLOW_TESTS)
    set_tests_properties(${name} PROPERTIES COST 900)
  endif()
endfunction()

# Ranks share the available cores, wait for one another without spinning, and may belong to root. An MPI library
# leaks by design at exit, which is not ours to report.
# All ranks are on this machine: Open MPI need not look for networks, some of whose libraries measure the clock first.
set(KEDGE_MPI_ENVIRONMENT
    OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader OMPI_MCA_mtl=^ofi,psm,psm2 OMPI_MCA_osc=^ucx,rdma PMIX_MCA_gds=hash
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
    OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_vader_single_copy_mechanism=none PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
    ASAN_OPTIONS=detect_leaks=0:quarantine_size_mb=16:allocator_release_to_os_interval_ms=-1)

# One at a time they take long: where nothing is known of earlier runs, they begin first, beside the others.
set(KEDGE_MPI_COST 1000)

# kedge_mpi_test(NAME name RANKS n COMMAND program args...): one at a time, because ranks already fill the machine.
function(kedge_mpi_test)
  cmake_parse_arguments(arg "" "NAME;RANKS" "COMMAND" ${ARGN})
  if(NOT MPI_C_FOUND)
    return()
  endif()
  list(POP_FRONT arg_COMMAND program)
  if(TARGET ${program})
    set(program $<TARGET_FILE:${program}>)
  endif()
  add_test(NAME ${arg_NAME} COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${arg_RANKS} ${MPIEXEC_PREFLAGS}
                                    ${program} ${MPIEXEC_POSTFLAGS} ${arg_COMMAND})
  kedge_test_limits(${arg_NAME} mpi)
  set_tests_properties(${arg_NAME} PROPERTIES PROCESSORS 2 RESOURCE_LOCK mpirun COST ${KEDGE_MPI_COST}
                                              ENVIRONMENT "${KEDGE_MPI_ENVIRONMENT}")
endfunction()

# kedge_script_test(NAME name SCRIPT file [ARGS ...] [LABEL label] [MPI]): a shell script; exit 77 is "skipped".
function(kedge_script_test)
  cmake_parse_arguments(arg "MPI" "NAME;SCRIPT;LABEL" "ARGS" ${ARGN})
  if(NOT arg_LABEL)
    string(REGEX REPLACE "/.*" "" arg_LABEL ${arg_NAME})
  endif()
  # Before its time is over a script is asked what it waits for.
  math(EXPR seconds "${KEDGE_TEST_SECONDS} - 60")
  set(environment KEDGE_SOURCE=${PROJECT_SOURCE_DIR} BUILD_DIR=${PROJECT_BINARY_DIR} SANITIZERS=${KEDGE_SANITIZE}
                  TEST_SECONDS=${seconds})
  if(KEDGE_SANITIZE) # libfabric keeps some memory of each endpoint, which is not ours to report
    list(APPEND environment LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/lib/leaks.txt:print_suppressions=0)
  endif()
  if(TARGET kedge)
    list(APPEND environment KEDGE_BIN=$<TARGET_FILE:kedge>)
  endif()
  add_test(NAME ${arg_NAME} COMMAND sh ${PROJECT_SOURCE_DIR}/tests/with-env.sh ${arg_SCRIPT} ${arg_ARGS})
  if(arg_MPI)
    list(APPEND environment ${KEDGE_MPI_ENVIRONMENT})
    list(APPEND arg_LABEL mpi)
    set_tests_properties(${arg_NAME} PROPERTIES PROCESSORS 2 RESOURCE_LOCK mpirun COST ${KEDGE_MPI_COST})
  endif()
  kedge_test_limits(${arg_NAME} "${arg_LABEL}")
  set_tests_properties(${arg_NAME} PROPERTIES SKIP_RETURN_CODE 77 ENVIRONMENT "${environment}")
endfunction()

# Unit tests that find the driver of tests/gpu as libcuda.so.1.
set(KEDGE_DRIVER_TESTS gpu/test_cuda gpu/test_deflate gpu/test_lz4 gpu/test_pass gpu/test_planes gpu/test_scatter reduce/test_gpu
    reduce/test_gpu_finder reduce/test_gpu_pack job/test_device job/test_device_restore)
list(APPEND KEDGE_DRIVER_TESTS job/test_device_faults)
set(KEDGE_FAKE_DRIVER ${PROJECT_BINARY_DIR}/tests/gpu/driver)

# One cmocka program, tests/FOLDER/PROGRAM in the build: target and test are named after it, and after its folder if two
# folders have a program of the same name. A program that cannot test anything here ends with 77, "skipped".
function(kedge_unit_test folder source)
  get_filename_component(program ${source} NAME_WE)
  set(target ${program})
  set(test ${folder}/${program})
  if(TARGET ${target})
    set(target ${folder}_${target})
  endif()
  add_executable(${target} ${source})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${program}
                                             RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/${folder})
  target_link_libraries(${target} PRIVATE kedge_testlib ${ARGN} PkgConfig::CMOCKA)
  if(NOT TARGET unit_tests_${folder})
    add_custom_target(unit_tests_${folder}) # all programs of a folder
  endif()
  add_dependencies(unit_tests_${folder} ${target})
  add_test(NAME ${test} COMMAND ${target})
  kedge_test_limits(${test} ${folder})
  set_tests_properties(${test} PROPERTIES SKIP_RETURN_CODE 77)
  if(test IN_LIST KEDGE_DRIVER_TESTS)
    # Its GPU is the same for all of them: they would wait for each other.
    set_tests_properties(${test} PROPERTIES ENVIRONMENT "LD_LIBRARY_PATH=${KEDGE_FAKE_DRIVER};KEDGE_GPU_TURNS=no")
  endif()
endfunction()
