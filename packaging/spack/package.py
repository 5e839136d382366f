# SPDX-License-Identifier: BSD-3-Clause
# A Spack recipe, until Spack has one of its own:
#   spack repo create kedge-repo kedge && mkdir -p kedge-repo/packages/kedge
#   cp package.py kedge-repo/packages/kedge/ && spack repo add kedge-repo
#   spack dev-build kedge@main        (in a clone of Kedge)
from spack.package import *


class Kedge(CMakePackage, CudaPackage):
    """Checkpoint and restart for programs too long or too large to lose: saves the memory that a
    program names as numbered versions, stores only what changed, and restores it bit for bit."""

    license("BSD-3-Clause")

    version("main")
    version("0.1.0")

    variant("mpi", default=True, description="Build libkedge-mpi, and the replacement for VELOC's client library")
    variant("codecs", default=True, description="Use libdeflate and fpzip for the codecs deflate and fpzip")
    variant("uring", default=True, description="Write by io_uring")
    variant("isal", default=True, description="Use ISA-L for redundancy between nodes")
    variant("staging", default=True, description="Staging over libfabric")

    depends_on("c", type="build")
    depends_on("cxx", type="build", when="+cuda")
    depends_on("cmake@3.20:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("xxhash@0.8:")
    depends_on("lz4@1.9:")
    depends_on("zstd@1.4:")
    depends_on("libinih")
    depends_on("jansson")
    depends_on("mpi", when="+mpi")
    depends_on("libdeflate", when="+codecs")
    depends_on("fpzip", when="+codecs")
    depends_on("liburing@2.2:", when="+uring")
    depends_on("isa-l", when="+isal")
    depends_on("libfabric", when="+staging")
    depends_on("libsodium", when="+staging")

    conflicts("platform=darwin", msg="Kedge needs Linux")
    conflicts("platform=windows", msg="Kedge needs Linux")

    generator("ninja")

    def cmake_args(self):
        args = [
            self.define("KEDGE_TESTS", False),
            self.define("CMAKE_DISABLE_FIND_PACKAGE_MPI", "~mpi" in self.spec),
            self.define_from_variant("KEDGE_OPTIONAL_CODECS", "codecs"),
            self.define_from_variant("KEDGE_URING", "uring"),
            self.define_from_variant("KEDGE_ISAL", "isal"),
            self.define_from_variant("KEDGE_STAGING", "staging"),
            self.define_from_variant("KEDGE_GPU", "cuda"),
        ]
        archs = self.spec.variants["cuda_arch"].value if "+cuda" in self.spec else ("none",)
        if archs[0] != "none":
            args.append(self.define("KEDGE_GPU_ARCHS", sorted(archs, key=int)))
        return args

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def check_command(self):
        Executable(self.prefix.bin.kedge)("info")
