#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""equal_files.py make DIR: HDF5 and netCDF-4 files with all that they can have, much of it deflated or szipped.
equal_files.py large FILE N: one of N MiB, and much less when it is packed.
equal_files.py compare A B [A B...]: whether HDF5 files are the same to whoever reads them, two by two: links, their order and kind, objects with several
names, committed types, types, spaces, how data is stored, attributes, and every byte of data. Prints what differs."""
import os
import sys
import zlib

import h5py
import numpy as np
from h5py import h5, h5a, h5d, h5f, h5o, h5p, h5r, h5s, h5t, h5z

SZIP = h5z.filter_avail(h5z.FILTER_SZIP)


def field(*shape, kind="<f8"):
    n = int(np.prod(shape))
    return (np.sin(np.arange(n) / 50.0) * 1000).astype(kind).reshape(shape)


def create(f, name, data, chunks, build, maxshape=None, fill=None):
    """With a list of properties that h5py's own call does not offer."""
    plist = h5p.create(h5p.DATASET_CREATE)
    plist.set_chunk(chunks)
    build(plist)
    if fill is not None:
        plist.set_fill_value(np.asarray(fill, dtype=data.dtype))
    space = h5s.create_simple(data.shape, maxshape or data.shape)
    d = h5d.create(f.id, name.encode(), h5t.py_create(data.dtype, logical=True), space, plist)
    d.write(h5s.ALL, h5s.ALL, data)
    return d


def packed(f):
    """Every index of chunks, every order of filters."""
    f.create_dataset("deflated", data=field(100, 40), chunks=(16, 40), compression="gzip", compression_opts=6)
    f.create_dataset("shuffled", data=field(100, 40, kind="<f4"), chunks=(10, 10), compression="gzip", shuffle=True)
    f.create_dataset("summed", data=field(64, 64), chunks=(64, 16), compression="gzip", shuffle=True, fletcher32=True)
    f.create_dataset("levels1", data=field(5000, kind="<i4"), chunks=(500,), compression="gzip", compression_opts=1)
    f.create_dataset("levels9", data=field(5000, kind=">i2"), chunks=(500,), compression="gzip", compression_opts=9)
    f.create_dataset("grows", data=field(7000), chunks=(100,), maxshape=(None,), compression="gzip")
    f.create_dataset("grows_both", data=field(90, 33), chunks=(16, 16), maxshape=(None, None), compression="gzip", shuffle=True)
    f.create_dataset("single", data=field(30, 30), chunks=(30, 30), compression="gzip")
    f.create_dataset("many", data=field(3000, kind="<u2"), chunks=(2,), compression="gzip")
    f.create_dataset("sparse", (1000, 1000), "<f4", chunks=(100, 100), compression="gzip", fillvalue=7)[500, 500:700] = 1
    f.create_dataset("unwritten", (1000, 1000), "<f4", chunks=(100, 100), compression="gzip", fillvalue=-1)
    f.create_dataset("scaled", data=field(4000, kind="<i4"), chunks=(400,), scaleoffset=0, compression="gzip")
    f.create_dataset("noise", data=np.frombuffer(np.random.RandomState(1).bytes(40000), "<f8"), chunks=(1000,), compression="gzip")
    create(f, "sum_first", field(4000), (400,), lambda p: (p.set_fletcher32(), p.set_shuffle(), p.set_deflate(4)))
    create(f, "twice", field(4000), (400,), lambda p: (p.set_deflate(2), p.set_deflate(9)))
    if SZIP:
        create(f, "szipped", field(4000, kind="<f4"), (400,), lambda p: p.set_szip(h5z.SZIP_NN_OPTION_MASK, 16))
        create(f, "szipped_ec", field(40, 60, kind="<i8"), (8, 60), lambda p: (p.set_shuffle(), p.set_szip(h5z.SZIP_EC_OPTION_MASK, 32), p.set_fletcher32()))
    d = create(f, "skipped", field(4000), (400,), lambda p: (p.set_shuffle(), p.set_deflate(6)))
    raw = np.arange(400, dtype="<f8").tobytes()
    d.write_direct_chunk((400,), raw, 3)  # no filter was applied to this chunk
    d.write_direct_chunk((800,), zlib.compress(raw, 6), 1)  # and to this one, only the second


def fletcher32(data):
    low = high = 0
    for i in range(0, len(data), 2):
        low += data[i] << 8 | (data[i + 1] if i + 1 < len(data) else 0)
        high += low
    low, high = low % 65535, high % 65535
    return (high << 16 | low).to_bytes(4, "little")


def foreign(f):
    """Streams that zlib, called as the library calls it, does not make: smaller ones stay, larger ones are packed again."""
    d = create(f, "better", field(4000), (400,), lambda p: p.set_deflate(1))
    for i in range(10):
        d.write_direct_chunk((400 * i,), zlib.compress(field(4000)[400 * i:400 * i + 400].tobytes(), 9))
    d = create(f, "worse_summed", field(4000), (400,), lambda p: (p.set_deflate(9), p.set_fletcher32()))
    for i in range(10):
        c = zlib.compressobj(1, zlib.DEFLATED, 12, 5)
        stream = c.compress(field(4000)[400 * i:400 * i + 400].tobytes()) + c.flush()
        d.write_direct_chunk((400 * i,), stream + fletcher32(stream))
    d = create(f, "worse", field(4000), (400,), lambda p: p.set_deflate(9))
    for i in range(10):
        c = zlib.compressobj(1, zlib.DEFLATED, 12, 5)
        d.write_direct_chunk((400 * i,), c.compress(field(4000)[400 * i:400 * i + 400].tobytes()) + c.flush())


def objects(f):
    point = np.dtype([("x", "<f8"), ("n", "<i4"), ("inner", [("a", "S5"), ("b", "<f4", (3,))])])
    f.create_dataset("compound", data=np.zeros(500, point), chunks=(50,), compression="gzip", shuffle=True)
    f.create_dataset("text", data=np.array([b"of fixed size"] * 200), chunks=(50,), compression="gzip")
    f.create_dataset("strings", data=["of any length"] * 20, dtype=h5py.string_dtype(), chunks=(5,), compression="gzip")
    f.create_dataset("lists", (40,), h5py.vlen_dtype("<i4"), chunks=(10,), compression="gzip")[3] = [1, 2, 3]
    f.create_dataset("choice", data=np.arange(300) % 2, dtype=h5py.enum_dtype({"no": 0, "yes": 1}, basetype="u1"), chunks=(100,), compression="gzip")
    f.create_dataset("opaque", data=np.zeros(100, "V7"), chunks=(50,), compression="gzip")
    f.create_dataset("array", data=np.zeros(100, np.dtype(("<i4", (2, 3)))), chunks=(50, 2, 3), compression="gzip")
    f["empty"] = h5py.Empty("<f4")
    f.create_dataset("nothing", (0, 3), "<f8", maxshape=(None, 3), chunks=(10, 3), compression="gzip")
    f["one"] = 3.5
    f["contiguous"] = field(300)
    plist = h5p.create(h5p.DATASET_CREATE)
    plist.set_layout(h5d.COMPACT)
    h5d.create(f.id, b"compact", h5t.IEEE_F32LE, h5s.create_simple((20,)), plist).write(h5s.ALL, h5s.ALL, np.arange(20, dtype="<f4"))
    f.create_dataset("elsewhere", (100,), "<f4", external=[("external.raw", 0, 400)])[...] = 3
    layout = h5py.VirtualLayout(shape=(100,), dtype="<f8")
    layout[:] = h5py.VirtualSource(".", "contiguous", shape=(300,))[:100]
    f.create_virtual_dataset("virtual", layout)
    f["type"] = point
    for i in range(2):
        f.create_dataset("committed%d" % i, data=np.zeros(100, point), dtype=f["type"], chunks=(50,), compression="gzip")
    g = f.create_group("group/deeper", track_order=True)
    for name in ("z", "a", "m"):
        g.create_dataset(name, data=field(200), chunks=(50,), compression="gzip")
    f["group/second_name"] = f["deflated"]
    f["group/loop"] = f["group"]
    f["soft"] = h5py.SoftLink("/group/deeper/z")
    f["dangling"] = h5py.SoftLink("/nowhere")
    f["external"] = h5py.ExternalLink("other.h5", "/x")
    f["\u00fcber"] = field(10)
    f.create_dataset("references", data=np.array([f["one"].ref, f["deflated"].ref, h5py.Reference()], dtype=h5py.ref_dtype), chunks=(2,), compression="gzip")
    f.create_dataset("regions", data=np.array([f["deflated"].regionref[2:5, 3:9]], dtype=h5py.regionref_dtype), chunks=(1,), compression="gzip")
    create(f, "late", field(100), (50,), lambda p: (p.set_deflate(6), p.set_alloc_time(h5d.ALLOC_TIME_LATE), p.set_fill_time(h5d.FILL_TIME_NEVER)))
    h5o.set_comment(f["deflated"].id, b"a comment")


def attributes(f):
    d = f["deflated"]
    d.attrs["number"] = 3
    d.attrs["text"] = "some text"
    d.attrs["list"] = np.arange(1000)
    d.attrs["reference"] = f["one"].ref
    d.attrs["strings"] = np.array(["a", "bc"], dtype=h5py.string_dtype())
    d.attrs["empty"] = h5py.Empty("<i4")
    for i in range(40):
        f["shuffled"].attrs["many%d" % i] = i
    f.attrs["root"] = 1


def whole(path, **how):
    with h5py.File(path, "w", **how) as f:
        packed(f)
        objects(f)
        attributes(f)


def netcdf(path):
    import netCDF4
    with netCDF4.Dataset(path, "w", format="NETCDF4") as d:
        d.createDimension("time", None)
        d.createDimension("x", 50)
        v = d.createVariable("x", "f8", ("x",), zlib=True)
        v[:] = np.arange(50)
        v = d.createVariable("t", "f4", ("time", "x"), zlib=True, complevel=5, shuffle=True, fletcher32=True, fill_value=-1)
        v.units = "K"
        v[:] = field(20, 50, kind="<f4")
        g = d.createGroup("forecast")
        g.createVariable("u", "i2", ("time", "x"), zlib=True)[:] = field(20, 50, kind="<i2")


def make(into):
    os.makedirs(into, exist_ok=True)
    os.chdir(into)
    whole("old.h5", libver="earliest")
    whole("new.h5", libver="latest")
    whole("ordered.h5", libver="latest", track_order=True)
    whole("user.h5", userblock_size=1024)
    with h5py.File("foreign.h5", "w") as f:
        foreign(f)
    fcpl = h5p.create(h5p.FILE_CREATE)
    fcpl.set_sizes(4, 4)
    with h5py.File(h5f.create(b"short.h5", h5f.ACC_TRUNC, fcpl)) as f:
        f.create_dataset("x", data=field(1000), chunks=(100,), compression="gzip")
    with h5py.File("lzf.h5", "w") as f:
        f.create_dataset("x", data=field(1000), chunks=(100,), compression="lzf")
    with h5py.File("mixed.h5", "w") as f:
        f.create_dataset("x", data=field(1000), chunks=(100,), compression="lzf", shuffle=True)
        f.create_dataset("y", data=field(1000), chunks=(100,), compression="gzip", shuffle=True)
    with h5py.File("unpacked.h5", "w") as f:
        f["x"] = field(1000)
    try:
        netcdf("four.nc")
    except ImportError:
        pass


# ---------------------------------------------------------------------- compare

class Compare:
    def __init__(self, a, b):
        self.files = a, b
        self.seen = {}
        self.said = 0

    def check(self, where, what, x, y):
        if x != y:
            self.said += 1
            print("%s: %s: %r is not %r" % (where, what, x, y))

    def types(self, where, x, y):
        if not x.equal(y):
            self.check(where, "type", x, y)
        self.check(where, "committed type", x.committed(), y.committed())

    def values(self, where, x, y):
        """Bytes; references by what they refer to."""
        def name(r, f):
            return h5r.get_name(r, f.id) if r else None
        if isinstance(x, h5py.Empty) or isinstance(y, h5py.Empty):
            self.check(where, "values", isinstance(x, h5py.Empty), isinstance(y, h5py.Empty))
        elif isinstance(x, (np.ndarray, np.void)) and x.dtype.names:
            self.check(where, "members", x.dtype.names, y.dtype.names)
            for n in x.dtype.names:
                self.values(where + "." + n, x[n], y[n])
        elif isinstance(x, np.ndarray) and x.dtype.kind == "O":
            self.check(where, "shape", x.shape, y.shape)
            for i, (v, w) in enumerate(zip(x.flat, y.flat)):
                if isinstance(v, (h5py.Reference, h5py.RegionReference)):
                    self.check(where, "reference %d" % i, name(v, self.files[0]), name(w, self.files[1]))
                    if isinstance(v, h5py.RegionReference):
                        self.check(where, "region", h5r.get_region(v, self.files[0].id).get_select_bounds(), h5r.get_region(w, self.files[1].id).get_select_bounds())
                else:
                    self.values(where, v, w)
        elif isinstance(x, (h5py.Reference, h5py.RegionReference)):
            self.check(where, "reference", name(x, self.files[0]), name(y, self.files[1]))
        elif isinstance(x, np.ndarray) or isinstance(x, np.generic):
            self.check(where, "values", (x.dtype, x.shape, x.tobytes()), (y.dtype, y.shape, y.tobytes()))
        else:
            self.check(where, "values", x, y)

    def attributes(self, where, x, y):
        n = [h5a.get_num_attrs(o.id) for o in (x, y)]
        self.check(where, "attributes", *n)
        for order in (h5.INDEX_NAME, h5.INDEX_CRT_ORDER):
            try:
                names = [[h5a.get_info(o.id, index=i, index_type=order).corder for i in range(n[0])] for o in (x, y)]
            except (RuntimeError, KeyError):
                continue
            self.check(where, "order of attributes", *names)
        self.check(where, "names of attributes", list(x.attrs), list(y.attrs))
        for k in x.attrs:
            p, q = h5a.open(x.id, k.encode()), h5a.open(y.id, k.encode())
            self.types(where + "@" + k, p.get_type(), q.get_type())
            self.check(where + "@" + k, "space", p.get_space().shape, q.get_space().shape)
            self.values(where + "@" + k, x.attrs[k], y.attrs[k])

    def properties(self, where, p, q):
        names = ("get_layout get_fill_time get_alloc_time fill_value_defined get_nfilters get_external_count get_attr_phase_change "
                 "get_attr_creation_order get_obj_track_times").split()
        for n in names:
            if hasattr(p, n):
                self.check(where, n, getattr(p, n)(), getattr(q, n)())
        if p.get_layout() == h5d.CHUNKED:
            self.check(where, "chunk", p.get_chunk(), q.get_chunk())
            self.check(where, "edges", p.get_chunk_opts() if hasattr(p, "get_chunk_opts") else 0, q.get_chunk_opts() if hasattr(q, "get_chunk_opts") else 0)
        for i in range(p.get_nfilters()):
            self.check(where, "filter %d" % i, p.get_filter(i), q.get_filter(i))
        for i in range(p.get_external_count()):
            self.check(where, "external file", p.get_external(i), q.get_external(i))
        if p.get_layout() == h5d.VIRTUAL:
            self.check(where, "virtual", [(p.get_virtual_filename(i), p.get_virtual_dsetname(i)) for i in range(p.get_virtual_count())],
                       [(q.get_virtual_filename(i), q.get_virtual_dsetname(i)) for i in range(q.get_virtual_count())])

    def dataset(self, where, x, y):
        self.types(where, x.id.get_type(), y.id.get_type())
        self.check(where, "shape", (x.shape, x.maxshape), (y.shape, y.maxshape))
        p, q = x.id.get_create_plist(), y.id.get_create_plist()
        self.properties(where, p, q)
        if not x.dtype.hasobject:
            self.values(where + " (fill)", x.fillvalue, y.fillvalue)
        if p.get_layout() == h5d.CHUNKED:
            self.check(where, "chunks", x.id.get_num_chunks(), y.id.get_num_chunks())
            for i in range(x.id.get_num_chunks()):
                c, e = x.id.get_chunk_info(i), y.id.get_chunk_info(i)
                self.check(where, "chunk %d" % i, (c.chunk_offset, c.filter_mask), (e.chunk_offset, e.filter_mask))
        self.values(where, x[()], y[()])

    def is_new(self, where, x, y):
        """False: it was compared under another name."""
        a, b = h5o.get_info(x.id), h5o.get_info(y.id)
        self.check(where, "names", a.rc, b.rc)
        key = a.addr, b.addr
        if self.seen.get(key[0], key[1]) != key[1]:
            self.check(where, "the object", self.seen[key[0]], key[1])
        new = key[0] not in self.seen
        self.seen[key[0]] = key[1]
        return new

    def object(self, where, x, y):
        if not self.is_new(where, x, y):
            return
        self.check(where, "kind", type(x), type(y))
        self.attributes(where, x, y)
        if isinstance(x, h5py.Group):
            self.group(where, x, y)
        elif isinstance(x, h5py.Dataset):
            self.dataset(where, x, y)
        else:
            self.types(where, x.id, y.id)

    def group(self, where, x, y):
        p, q = x.id.get_create_plist() if hasattr(x.id, "get_create_plist") else None, y.id.get_create_plist() if hasattr(y.id, "get_create_plist") else None
        if p:
            self.check(where, "order", p.get_link_creation_order(), q.get_link_creation_order())
        self.check(where, "members", list(x), list(y))
        for name in x:
            inside = where + "/" + name
            infos = [g.id.links.get_info(name.encode()) for g in (x, y)]
            self.check(inside, "link", (infos[0].type, infos[0].corder, infos[0].corder_valid, infos[0].cset), (infos[1].type, infos[1].corder, infos[1].corder_valid, infos[1].cset))
            kind = x.get(name, getlink=True, getclass=True)
            if kind is not h5py.HardLink:
                a, b = x.get(name, getlink=True), y.get(name, getlink=True)
                self.check(inside, "target", vars(a), vars(b))
                continue
            self.object(inside, x[name], y[name])


def compare(a, b):
    with h5py.File(a, "r") as x, h5py.File(b, "r") as y:
        c = Compare(x, y)
        p, q = x.id.get_create_plist(), y.id.get_create_plist()
        for n in ("get_userblock", "get_sizes", "get_link_creation_order", "get_version", "get_file_space_strategy"):
            if hasattr(p, n):
                c.check("the file", n, getattr(p, n)(), getattr(q, n)())
        with open(a, "rb") as v, open(b, "rb") as w:
            c.check("the file", "user block", v.read(p.get_userblock()), w.read(q.get_userblock()))
        c.object("", x["/"], y["/"])
    return c.said


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(sys.argv[2])
    elif sys.argv[1] == "large":
        with h5py.File(sys.argv[2], "w") as f:
            d = f.create_dataset("x", (int(sys.argv[3]), 1 << 17), "<f8", chunks=(1, 1 << 17), compression="gzip", compression_opts=1)
            for i in range(d.shape[0]):
                d[i] = np.tile(np.arange(1024) * (i + 1.0), 128)
    elif sys.argv[1] == "compare":
        paths = [os.path.abspath(p) for p in sys.argv[2:]]
        said = 0
        for a, b in zip(paths[::2], paths[1::2]):
            os.chdir(os.path.dirname(a))  # where files are that it refers to
            said += compare(a, b)
        sys.exit(1 if said else 0)
