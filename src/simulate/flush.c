/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * flush: how long a copy of all nodes takes through staging servers into a shared file system.
 *
 * All active servers are served alike, so each has received the same number of bytes v at any time, and dv/dt =
 * min(rate of a server, file system / active servers). A server leaves when v reaches its share. Going through the
 * shares in ascending order is therefore the exact event simulation, at the price of a sort.
 */
#include "base/exact.h"
#include "simulate/simulate.h"
#include <math.h>
#include <stdlib.h>

#define EXACT_SUM 32 /* shares of up to so many nodes are drawn node by node, larger ones as one normal variate */

int kedge__flush_check(const struct kedge__flush *f, struct kedge__error *err)
{
	const struct {
		const char *what;
		double value, least, most;
	} all[] = {
	    {"number of nodes", f->nodes, 1, 1e7},
	    {"size of a node's checkpoint", f->size, 0, 1e30},
	    {"variation of sizes", f->variation, 0, 0.5},
	    {"number of staging servers", f->servers, 0, 1e6},
	    {"rate of a node", f->node_rate, 0, 1e30},
	    {"rate of a staging server", f->server_rate, 0, 1e30},
	    {"file system bandwidth", f->pfs_rate, 1e-300, 1e30},
	};

	for (size_t i = 0; i < KEDGE__COUNT(all); i++)
		if (!(all[i].value >= all[i].least && all[i].value <= all[i].most))
			return kedge__error_set(err, KEDGE_E_ARG, 0, "the %s is %g: it must be %g to %g", all[i].what,
						all[i].value, all[i].least, all[i].most);
	if (f->nodes != floor(f->nodes) || f->servers != floor(f->servers))
		return kedge__error_set(err, KEDGE_E_ARG, 0, "nodes and staging servers are whole numbers");
	return 0;
}

static double queues(const struct kedge__flush *f)
{
	return f->servers > 0 ? KEDGE__MIN(f->servers, f->nodes) : f->nodes;
}

size_t kedge__flush_room(const struct kedge__flush *f)
{
	return (size_t)queues(f);
}

static double draw_share(const struct kedge__flush *f, struct kedge__random *r, double nodes)
{
	double sum = 0;

	if (f->variation == 0)
		return nodes * f->size;
	if (nodes > EXACT_SUM)
		return KEDGE__MAX(0, f->size * (nodes + sqrt(nodes) * f->variation * kedge__random_normal(r)));
	for (double i = 0; i < nodes; i++)
		sum += KEDGE__MAX(0, 1 + f->variation * kedge__random_normal(r));
	return sum * f->size;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double server_rate(const struct kedge__flush *f)
{
	double rate = INFINITY;

	if (f->node_rate > 0)
		rate = f->node_rate;
	if (f->servers > 0 && f->server_rate > 0)
		rate = KEDGE__MIN(rate, f->server_rate);
	return rate;
}

void kedge__flush_simulate(const struct kedge__flush *f, struct kedge__random *r, double *room,
			   struct kedge__flush_times *out)
{
	size_t n = kedge__flush_room(f);
	double each = floor(f->nodes / (double)n), extra = f->nodes - each * (double)n;
	double cap = server_rate(f), time = 0, served = 0, sum = 0, bytes = 0;

	for (size_t i = 0; i < n; i++) {
		room[i] = draw_share(f, r, each + ((double)i < extra));
		bytes += room[i];
	}
	qsort(room, n, sizeof(*room), ascending);
	for (size_t i = 0; i < n; i++) {
		double rate = KEDGE__MIN(cap, f->pfs_rate / (double)(n - i));

		time += (room[i] - served) / rate;
		served = room[i];
		sum += time;
		if (i == 0)
			out->first = time;
	}
	out->last = time;
	out->mean = sum / (double)n;
	out->floor = bytes / f->pfs_rate;
}
