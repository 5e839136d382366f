/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The only file that uses libfabric. Reliable datagram endpoints with reads of remote memory, of any provider.
 *
 * The library is opened when it is first needed, and stays: some of what it loads itself measures the clock for a tenth
 * of a second when it is loaded, which programs that do not use staging should not pay for.
 */
#include "base/library.h"
#include "transport/transport.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdio.h>
#include <sys/random.h>

#define LIBRARY "libfabric.so.1"
#define API     FI_VERSION(1, 14)
#define QUEUE   32

/* What is called by name; all else of libfabric goes through tables that these hand out. */
#define CALL(name) __typeof__(&(name)) name
static struct library {
	CALL(fi_getinfo);
	CALL(fi_freeinfo);
	CALL(fi_dupinfo);
	CALL(fi_fabric);
	CALL(fi_strerror);
	CALL(fi_version);
} lib;
#undef CALL

#define CALL(name)                                                                                                     \
	{                                                                                                              \
#name, &lib.name                                                                                       \
	}
static const struct kedge__library_call calls[] = {
    CALL(fi_getinfo), CALL(fi_freeinfo), CALL(fi_dupinfo), CALL(fi_fabric), CALL(fi_strerror), CALL(fi_version),
};
#undef CALL

static struct {
	pthread_mutex_t lock;
	bool open;
} library = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct kedge__fabric {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
};

struct op {                         /* a read in flight */
	struct fi_context2 context; /* the provider's, and first */
	void *user;
	struct op *next; /* of those that are free */
};

struct kedge__port {
	struct kedge__fabric *f;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	fi_addr_t peer;
	int fd;
	size_t reads;
	struct op *ops, *free;
};

static int failed(struct kedge__error *err, int rc, const char *what)
{
	return kedge__error_set(err, rc == -FI_ENOMEM ? KEDGE_E_NOMEM : KEDGE_E_IO, 0, "libfabric cannot %s: %s", what,
				lib.fi_strerror(-rc));
}

bool kedge__fabric_built(void)
{
	return true;
}

/* Where it is missing, a later call looks again. */
static int library_load(struct kedge__error *err)
{
	void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	const char *missing;

	if (!handle)
		return kedge__error_set(err, KEDGE_E_CONFIG, 0, "staging needs libfabric: %s", dlerror());
	missing = kedge__library_find(handle, calls, KEDGE__COUNT(calls));
	if (missing)
		return kedge__error_set(err, KEDGE_E_CONFIG, 0, "staging needs libfabric, but " LIBRARY " has no %s()",
					missing);
	library.open = true;
	return 0;
}

static int library_open(struct kedge__error *err)
{
	int rc;

	pthread_mutex_lock(&library.lock);
	rc = library.open ? 0 : library_load(err);
	pthread_mutex_unlock(&library.lock);
	return rc;
}

const char *kedge__fabric_version(void)
{
	static char text[24];
	uint32_t v;

	if (library_open(NULL))
		return "";
	v = lib.fi_version();
	snprintf(text, sizeof(text), "%u.%u", FI_MAJOR(v), FI_MINOR(v));
	return text;
}

/* ------------------------------------------------------------------ the fabric */

static struct fi_info *hints_make(const char *provider)
{
	struct fi_info *h = lib.fi_dupinfo(NULL);

	if (!h)
		return NULL;
	h->caps = FI_MSG | FI_RMA | FI_READ | FI_REMOTE_READ;
	h->mode = FI_CONTEXT | FI_CONTEXT2;
	h->ep_attr->type = FI_EP_RDM;
	h->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR | FI_MR_ENDPOINT;
	h->domain_attr->threading = FI_THREAD_DOMAIN;
	h->domain_attr->resource_mgmt = FI_RM_ENABLED;
	h->tx_attr->size = h->rx_attr->size = QUEUE; /* of messages, for which some providers reserve megabytes */
	h->fabric_attr->prov_name = strdup(provider);
	if (h->fabric_attr->prov_name)
		return h;
	lib.fi_freeinfo(h);
	return NULL;
}

/* Providers without IP addresses find nothing where there is a host. */
static int ask(const char *provider, const char *host, struct fi_info **info)
{
	struct fi_info *hints = hints_make(provider);
	bool here = strcmp(provider, "shm") == 0;
	int code;

	if (!hints)
		return -FI_ENOMEM;
	code = here || !host ? -FI_ENODATA : lib.fi_getinfo(API, host, NULL, FI_SOURCE, hints, info);
	if (code == -FI_ENODATA)
		code = lib.fi_getinfo(API, NULL, NULL, 0, hints, info);
	lib.fi_freeinfo(hints);
	return code;
}

/* In libfabric 1.17 the provider of that name has no reliable datagrams of its own: a layer above it provides them,
 * with some 60 MB for each endpoint. Its successor, which has, was called net until it took that name. */
static int find(const char *provider, const char *host, struct fi_info **info, struct kedge__error *err)
{
	int code = strcmp(provider, "tcp") == 0 ? ask("net", host, info) : -FI_ENODATA;

	if (code == -FI_ENODATA)
		code = ask(provider, host, info);
	if (!code)
		return 0;
	return kedge__error_set(
	    err, KEDGE_E_CONFIG, 0,
	    "libfabric %s has no provider \"%s\" here that can read remote memory (%s): fi_info shows "
	    "those that it has",
	    kedge__fabric_version(), provider, lib.fi_strerror(-code));
}

const char *kedge__fabric_provider(const struct kedge__fabric *f)
{
	return f->info->fabric_attr->prov_name;
}

int kedge__fabric_open(const char *provider, const char *host, struct kedge__fabric **out, struct kedge__error *err)
{
	struct kedge__fabric *f = kedge__calloc(1, sizeof(*f));
	int rc = f ? library_open(err) : kedge__error_nomem(err);
	int code;

	if (!rc)
		rc = find(provider, host, &f->info, err);
	if (rc) {
		kedge__free(f);
		return rc;
	}
	code = lib.fi_fabric(f->info->fabric_attr, &f->fabric, NULL);
	if (!code)
		code = fi_domain(f->fabric, f->info, &f->domain, NULL);
	if (code) {
		kedge__fabric_close(f);
		return failed(err, code, "open the fabric");
	}
	*out = f;
	return 0;
}

void kedge__fabric_close(struct kedge__fabric *f)
{
	if (!f)
		return;
	if (f->domain)
		fi_close(&f->domain->fid);
	if (f->fabric)
		fi_close(&f->fabric->fid);
	lib.fi_freeinfo(f->info);
	kedge__free(f);
}

/* ------------------------------------------------------------------ ports */

static int ops_make(struct kedge__port *p)
{
	p->ops = kedge__calloc(p->reads + 1, sizeof(*p->ops));
	for (size_t i = 0; p->ops && i < p->reads; i++) {
		p->ops[i].next = p->free;
		p->free = &p->ops[i];
	}
	return p->ops ? 0 : -FI_ENOMEM;
}

static int queue_open(struct kedge__port *p)
{
	struct fi_cq_attr attr = {.size = p->reads + 16, .format = FI_CQ_FORMAT_CONTEXT, .wait_obj = FI_WAIT_FD};
	int code = fi_cq_open(p->f->domain, &attr, &p->cq, NULL);

	if (!code)
		return fi_control(&p->cq->fid, FI_GETWAIT, &p->fd);
	p->fd = -1;
	attr.wait_obj = FI_WAIT_NONE;
	return fi_cq_open(p->f->domain, &attr, &p->cq, NULL);
}

static int endpoint_open(struct kedge__port *p)
{
	struct fi_av_attr attr = {.type = FI_AV_UNSPEC, .count = 1};
	int code = fi_av_open(p->f->domain, &attr, &p->av, NULL);

	if (!code)
		code = fi_endpoint(p->f->domain, p->f->info, &p->ep, NULL);
	if (!code)
		code = fi_ep_bind(p->ep, &p->av->fid, 0);
	if (!code)
		code = fi_ep_bind(p->ep, &p->cq->fid, FI_TRANSMIT | FI_RECV);
	return code ? code : fi_enable(p->ep);
}

int kedge__port_open(struct kedge__fabric *f, size_t reads, struct kedge__port **out, struct kedge__error *err)
{
	struct kedge__port *p = kedge__calloc(1, sizeof(*p));
	int code;

	if (!p)
		return kedge__error_nomem(err);
	p->f = f;
	p->fd = -1;
	p->reads = reads;
	p->peer = FI_ADDR_UNSPEC;
	code = ops_make(p);
	if (!code)
		code = queue_open(p);
	if (!code)
		code = endpoint_open(p);
	if (code) {
		kedge__port_close(p);
		return failed(err, code, "open an endpoint");
	}
	*out = p;
	return 0;
}

void kedge__port_close(struct kedge__port *p)
{
	if (!p)
		return;
	if (p->ep)
		fi_close(&p->ep->fid);
	if (p->cq)
		fi_close(&p->cq->fid);
	if (p->av)
		fi_close(&p->av->fid);
	kedge__free(p->ops);
	kedge__free(p);
}

int kedge__port_name(const struct kedge__port *p, uint8_t name[KEDGE__PORT_NAME_MAX], size_t *bytes,
		     struct kedge__error *err)
{
	size_t n = KEDGE__PORT_NAME_MAX;
	int code = fi_getname(&p->ep->fid, name, &n);

	if (code)
		return failed(err, code, "name an endpoint");
	*bytes = n;
	return 0;
}

/* A name comes from another process: what it leads to is libfabric's to find out, how long it is has to be right. */
static bool name_fits(const struct kedge__port *p, const uint8_t *name, size_t bytes)
{
	uint8_t own[KEDGE__PORT_NAME_MAX];
	size_t n = sizeof(own);

	if (p->f->info->addr_format == FI_ADDR_STR)
		return bytes && name[bytes - 1] == '\0' && strlen((const char *)name) == bytes - 1;
	return fi_getname(&p->ep->fid, own, &n) == 0 && n == bytes;
}

int kedge__port_peer(struct kedge__port *p, const uint8_t *name, size_t bytes, struct kedge__error *err)
{
	uint8_t copy[KEDGE__PORT_NAME_MAX] = {0};
	int n;

	if (bytes > sizeof(copy) || !name_fits(p, name, bytes))
		return kedge__error_set(err, KEDGE_E_DAMAGED, 0,
					"the name of the other endpoint is none of this provider");
	memcpy(copy, name, bytes);
	n = fi_av_insert(p->av, copy, 1, &p->peer, 0, NULL);
	return n == 1 ? 0 : failed(err, n < 0 ? n : -FI_EINVAL, "use the name of the other endpoint");
}

int kedge__port_fd(const struct kedge__port *p)
{
	return p->fd;
}

bool kedge__port_may_wait(struct kedge__port *p)
{
	struct fid *fids[] = {&p->cq->fid};

	return p->fd < 0 || fi_trywait(p->f->fabric, fids, 1) == FI_SUCCESS;
}

static void *op_end(struct kedge__port *p, void *context)
{
	struct op *op = context;
	void *user = op->user;

	op->next = p->free;
	p->free = op;
	return user;
}

static bool take_error(struct kedge__port *p, struct kedge__port_done *done)
{
	struct fi_cq_err_entry e = {0};

	if (fi_cq_readerr(p->cq, &e, 0) < 1 || !e.op_context)
		return false;
	*done = (struct kedge__port_done){op_end(p, e.op_context), e.err ? e.err : EIO};
	return true;
}

size_t kedge__port_poll(struct kedge__port *p, struct kedge__port_done *done, size_t n)
{
	struct fi_cq_entry e;
	size_t count = 0;

	for (;;) {
		ssize_t got = fi_cq_read(p->cq, &e, count < n ? 1 : 0);

		if (count == n || got == -FI_EAGAIN || got == 0)
			return count;
		if (got == 1 && e.op_context)
			done[count++] = (struct kedge__port_done){op_end(p, e.op_context), 0};
		else if (got == -FI_EAVAIL)
			count += take_error(p, &done[count]);
		else if (got < 0)
			return count;
	}
}

/* ------------------------------------------------------------------ memory */

/* Where the provider lets us choose: nobody else can guess it. */
static uint64_t draw_key(const struct kedge__fabric *f)
{
	size_t bytes = KEDGE__MIN(f->info->domain_attr->mr_key_size, sizeof(uint64_t));
	uint64_t key = 0;

	if (f->info->domain_attr->mr_mode & FI_MR_PROV_KEY || getrandom(&key, bytes, 0) != (ssize_t)bytes)
		return 0;
	return bytes == sizeof(key) ? key >> 1 : key;
}

static int bind_memory(const struct kedge__fabric *f, struct kedge__port *p, struct fid_mr *mr)
{
	int code;

	if (!p || !(f->info->domain_attr->mr_mode & FI_MR_ENDPOINT))
		return 0;
	code = fi_mr_bind(mr, &p->ep->fid, 0);
	return code ? code : fi_mr_enable(mr);
}

int kedge__fabric_register(struct kedge__fabric *f, struct kedge__port *p, void *at, size_t bytes,
			   struct kedge__fabric_memory *m, struct kedge__error *err)
{
	int mode = f->info->domain_attr->mr_mode, code;
	struct fid_mr *mr = NULL;

	*m = (struct kedge__fabric_memory){.at = at, .bytes = bytes};
	if (!p && !(mode & FI_MR_LOCAL))
		return 0;
	code = fi_mr_reg(f->domain, at, bytes, p ? FI_REMOTE_READ : FI_READ | FI_WRITE, 0, draw_key(f), 0, &mr, NULL);
	if (!code)
		code = bind_memory(f, p, mr);
	if (code) {
		if (mr)
			fi_close(&mr->fid);
		return failed(err, code, "register memory");
	}
	m->mr = mr;
	m->desc = fi_mr_desc(mr);
	m->key = fi_mr_key(mr);
	m->address = mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)at : 0;
	return 0;
}

void kedge__fabric_unregister(struct kedge__fabric_memory *m)
{
	struct fid_mr *mr = m->mr;

	if (mr)
		fi_close(&mr->fid);
	*m = (struct kedge__fabric_memory){0};
}

int kedge__port_read(struct kedge__port *p, const struct kedge__fabric_memory *m, void *to, size_t bytes,
		     uint64_t address, uint64_t key, void *context, struct kedge__error *err)
{
	struct op *op = p->free;
	ssize_t code;

	if (!op)
		return 1;
	op->user = context;
	code = fi_read(p->ep, to, bytes, m->desc, p->peer, address, key, &op->context);
	if (code == -FI_EAGAIN)
		return 1;
	if (code)
		return failed(err, (int)code, "read the client's memory");
	p->free = op->next;
	return 0;
}
