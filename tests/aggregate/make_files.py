#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""make_files.py DIR [large]: small HDF5 and netCDF files with everything that their libraries can write (h5py, netCDF4).

A dataset called N_M_BKW_... holds the numbers from N on, M of them, in the order in which the file has them: B is l for little
endian or b for big endian, K is f or i, W the bytes of a number. So a test can see that the right bytes were found.
tests/aggregate/files has what this wrote with HDF5 1.10.8 and netCDF 4.9.0.
"""
import ctypes
import os
import sys

import h5py
import netCDF4
import numpy as np


def numbers(first, shape, kind):
    n = int(np.prod(shape))
    return np.arange(first, first + n).astype(kind).reshape(shape)


def datasets(f):
    f["100_600_lf8_contiguous"] = numbers(100, (20, 30), "<f8")
    f["g12/sub3/200_400_lf4_deep"] = numbers(200, (400,), "<f4")
    f["g12/sub4/300_400_lf4_deep"] = numbers(300, (400,), "<f4")
    f["400_400_bf4_big"] = numbers(400, (400,), ">f4")
    f["500_300_li2_short"] = numbers(500, (300,), "<i2")
    f.create_dataset("600_600_lf8_chunked", data=numbers(600, (600,), "<f8"), chunks=(100,))
    f.create_dataset("700_800_li4_grows", data=numbers(700, (800,), "<i4"), chunks=(40,), maxshape=(None,))
    f.create_dataset("800_640_li8_two", data=numbers(800, (40, 16), "<i8"), chunks=(4, 16), maxshape=(None, None))
    f.create_dataset("packed", data=np.zeros((64, 64)), chunks=(16, 64), compression="gzip", shuffle=True)
    f.create_dataset("900_500_lf4_sums", data=numbers(900, (500,), "<f4"), chunks=(500,), fletcher32=True)
    f.create_dataset("fixed_packed", data=np.arange(600.0), chunks=(100,), compression="gzip")


def oddities(f):
    point = np.dtype([("x", "<f8"), ("n", "<i4")])
    f["compound"] = np.zeros(50, point)
    f["text"] = np.array([b"some text of fixed size"] * 20)
    f.create_dataset("strings", data=["of any length"] * 20, dtype=h5py.string_dtype())
    f.create_dataset("lists", shape=(4,), dtype=h5py.vlen_dtype("<i4"))
    f["lists"][0] = [1, 2, 3]
    f.create_dataset("choice", data=np.zeros(300, "u1"), dtype=h5py.enum_dtype({"no": 0, "yes": 1}, basetype="u1"))
    f["empty"] = h5py.Empty("<f4")
    f["nothing"] = np.zeros((0, 3))
    f["one"] = 3.5
    f["complex"] = np.arange(100) * (1 + 2j)
    f["flags"] = np.ones(100, bool)
    f["references"] = np.array([f["one"].ref, f["text"].ref], dtype=h5py.ref_dtype)
    space = h5py.h5s.create_simple((20,))
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_layout(h5py.h5d.COMPACT)
    h5py.h5d.create(f.id, b"compact", h5py.h5t.IEEE_F32LE, space, plist).write(
        h5py.h5s.ALL, h5py.h5s.ALL, np.arange(20, dtype="<f4"))
    f.create_dataset("elsewhere", (100,), "<f4", external=[("external.raw", 0, 400)])
    layout = h5py.VirtualLayout(shape=(100,), dtype="<f4")
    layout[:] = h5py.VirtualSource("other.h5", "x", shape=(100,))
    f.create_virtual_dataset("virtual", layout)
    f["type"] = np.dtype("<f4")
    f.create_dataset("1000_400_lf4_committed", data=numbers(1000, (400,), "<f4"), dtype=f["type"])
    f["soft"] = h5py.SoftLink("/one")
    f["away"] = h5py.ExternalLink("other.h5", "/x")
    f["g/again"] = f["one"]
    f["g/loop"] = f["g"]
    f.attrs["note"] = "an attribute"
    f["one"].attrs["list"] = np.arange(2000)


def hdf5(path, **how):
    with h5py.File(path, "w", **how) as f:
        datasets(f)
    with h5py.File(path.replace(".h5", "_odd.h5"), "w", **how) as f:
        oddities(f)


def many(path, groups, **how):
    with h5py.File(path, "w", **how) as f:
        for i in range(groups):
            f["Grid%08d/%d_300_lf4_Density" % (i + 1, i)] = numbers(i, (300,), "<f4")


def classic(path, form):
    order = "l" if form == "NETCDF4" else "b"
    with netCDF4.Dataset(path, "w", format=form) as f:
        f.createDimension("x", 20)
        f.createDimension("y", 30)
        f.createDimension("time", None)
        f.title = "a title"
        f.createVariable("100_600_%sf8_fixed" % order, "f8", ("x", "y"))[:] = numbers(100, (20, 30), "f8")
        f.createVariable("200_600_%si2_short" % order, "i2", ("x", "y"))[:] = numbers(200, (20, 30), "i2")
        steps = f.createVariable("300_150_%sf4_record" % order, "f4", ("time", "y"))
        others = f.createVariable("400_5_%si1_bytes" % order, "i1", ("time",))
        steps.units = "m"
        steps[:] = numbers(300, (5, 30), "f4")
        others[:] = np.arange(5)
    with netCDF4.Dataset(path.replace(".nc", "_one.nc"), "w", format=form) as f:
        f.createDimension("time", None)
        f.createDimension("x", 15)
        f.createVariable("500_150_%si2_only" % order, "i2", ("time", "x"))[:] = numbers(500, (10, 15), "i2")


def large(path, **how):
    """Indexes of chunks with several levels, and pages."""
    with h5py.File(path, "w", **how) as f:
        f.create_dataset("0_8000_li4_fixed", data=numbers(0, (8000,), "<i4"), chunks=(4,))
        f.create_dataset("1_8000_li4_grows", data=numbers(1, (8000,), "<i4"), chunks=(4,), maxshape=(None,))
        f.create_dataset("2_8000_li4_two", data=numbers(2, (2000, 4), "<i4"), chunks=(1, 4), maxshape=(None, None))
        f.create_dataset("packed_fixed", data=numbers(0, (8000,), "<i4"), chunks=(4,), compression="gzip")
        f.create_dataset("packed_grows", data=numbers(0, (8000,), "<i4"), chunks=(4,), maxshape=(None,), compression="gzip")
        for i in range(400):
            f["group/%d_1_li4_of many" % i] = numbers(i, (1,), "<i4")


def deep(path):
    """Data blocks in pages, of which most were never written; a B-tree of several levels."""
    with h5py.File(path, "w", libver="latest") as f:
        d = f.create_dataset("0_1920_li4_paged", (135000,), "<i4", chunks=(1,), maxshape=(None,))
        d[10:30] = numbers(0, (20,), "<i4")
        d[131100:133000] = numbers(20, (1900,), "<i4")  # the 131,061st is the first in a page
        d = f.create_dataset("1_9000_li4_tree", (9000, 1), "<i4", chunks=(1, 1), maxshape=(None, None))
        d[:] = numbers(1, (9000, 1), "<i4")
        for i in range(1500):
            f["group/%d_1_li4_of many" % i] = numbers(i, (1,), "<i4")
        f["100_20000_lf8_beside"] = numbers(100, (20000,), "<f8")


def shared(path, libver):
    """Messages of object headers that many of them share: h5py has no call to ask for that."""
    library = [line.split()[-1] for line in open("/proc/self/maps") if "libhdf5" in line and "_hl" not in line][0]
    hdf5 = ctypes.CDLL(library)
    hdf5.H5Pset_shared_mesg_nindexes.argtypes = [ctypes.c_int64, ctypes.c_uint]
    hdf5.H5Pset_shared_mesg_index.argtypes = [ctypes.c_int64, ctypes.c_uint, ctypes.c_uint, ctypes.c_uint]
    how = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    hdf5.H5Pset_shared_mesg_nindexes(how.id, 1)
    hdf5.H5Pset_shared_mesg_index(how.id, 0, 0x1F, 1)  # spaces, types, fill values, filters, attributes
    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_libver_bounds(libver, h5py.h5f.LIBVER_LATEST)
    with h5py.File(h5py.h5f.create(path.encode(), h5py.h5f.ACC_TRUNC, how, access)) as f:
        for i in range(3):
            f["%d_300_lf8_alike" % (1000 * i)] = numbers(1000 * i, (300,), "<f8")
            f.create_dataset("%d_300_li4_chunks" % (1000 * i), data=numbers(1000 * i, (300,), "<i4"), chunks=(100,),
                             fillvalue=7)


def raw(path):
    """A header, doubles that begin at an odd place, and big-endian floats."""
    x = np.arange(3000)
    with open(path, "wb") as f:
        f.write(b"a restart file, step 12\n" * 30 + b"...")
        f.write((np.sin(x / 50) + 3 + 1e-9 * (x * 7919 % 100)).astype("<f8").tobytes())
        f.write((np.cos(x / 70) + 2 + 1e-5 * (x * 7919 % 100)).astype(">f4").tobytes())


def main():
    os.makedirs(sys.argv[1], exist_ok=True)
    os.chdir(sys.argv[1])
    if len(sys.argv) > 2:  # too large to be kept
        large("large_old.h5", libver="earliest")
        large("large_new.h5", libver="latest")
        deep("deep.h5")
    hdf5("old.h5", libver="earliest")
    hdf5("new.h5", libver="latest")
    many("many_old.h5", 20, libver="earliest")
    many("many_new.h5", 20, libver="latest")
    with h5py.File("user.h5", "w", userblock_size=1024) as f:
        f["100_400_lf4_after"] = numbers(100, (400,), "<f4")
    classic("one.nc", "NETCDF3_CLASSIC")
    classic("two.nc", "NETCDF3_64BIT_OFFSET")
    classic("five.nc", "NETCDF3_64BIT_DATA")
    classic("four.nc", "NETCDF4")
    raw("restart.raw")
    shared("shared_old.h5", h5py.h5f.LIBVER_EARLIEST)
    shared("shared_new.h5", h5py.h5f.LIBVER_LATEST)


main()
