/* SPDX-License-Identifier: BSD-3-Clause */
/* The arithmetic, the teams, and both over ranks that are threads. */
#include "../lib/cases.h"
#include "../lib/draw.h"
#include "../lib/ranks.h"
#include "protect/protect.h"

#include <stdlib.h>

#define CODE_SUM UINT64_C(0x41bf7f822d3f4d35) /* of what follows, made in 2026 by both variants */

/* ------------------------------------------------------------------ schemes */

static void test_schemes(void **state)
{
	static const char *const wrong[] = {"",        "xor",    "xor:1",   "xor:33",   "xor:4x",
					    "rs:4",    "rs:0+2", "rs:4+0",  "rs:4+-2",  "rs:4+2 ",
					    "Partner", "raid5",  "rs:30+3", "xor:99999"};
	struct kedge__protection p;
	char text[KEDGE__PROTECTION_TEXT];

	(void)state;
	assert_int_equal(kedge__protection_parse("single", &p, NULL), 0);
	assert_int_equal(p.scheme, KEDGE__SCHEME_SINGLE);
	assert_int_equal(kedge__protection_parse("partner", &p, NULL), 0);
	assert_string_equal(kedge__protection_text(p.scheme, p.members, p.parity, text), "partner");
	assert_string_equal(kedge__protection_text(p.scheme, 3, 1, text), "xor:3");
	assert_int_equal(kedge__protection_parse("xor:8", &p, NULL), 0);
	assert_string_equal(kedge__protection_text(p.scheme, p.members, p.parity, text), "xor:8");
	assert_int_equal(kedge__protection_parse("rs:4+2", &p, NULL), 0);
	assert_int_equal(p.members, 6);
	assert_string_equal(kedge__protection_text(p.scheme, p.members, p.parity, text), "rs:4+2");
	for (size_t i = 0; i < KEDGE__COUNT(wrong); i++) {
		struct kedge__error err = KEDGE__ERROR_INIT;

		assert_int_equal(kedge__protection_parse(wrong[i], &p, &err), KEDGE_E_CONFIG);
		assert_non_null(strstr(kedge__error_text(&err), "rs:4+2"));
		kedge__error_done(&err);
	}
}

/* ------------------------------------------------------------------ teams */

/* No two of a node; sizes differ by one at most; enough of them. 0: none can be formed. */
static uint32_t teams_check(const struct kedge__protection *p, const uint32_t *node, uint32_t ranks)
{
	uint32_t team[256], teams = 99, least = UINT32_MAX, most = 0;

	assert_int_equal(kedge__teams_form(p, node, ranks, team, &teams, NULL), 0);
	for (uint32_t t = 0; t < teams; t++) {
		uint32_t size = 0;

		for (uint32_t r = 0; r < ranks; r++) {
			size += team[r] == t;
			for (uint32_t q = 0; q < r; q++)
				assert_false(team[r] == t && team[q] == t && node[q] == node[r]);
		}
		least = KEDGE__MIN(least, size);
		most = KEDGE__MAX(most, size);
	}
	if (teams)
		assert_true(least > p->parity && most - least <= 1);
	return teams;
}

static void test_teams(void **state)
{
	const struct kedge__protection xor4 = {KEDGE__SCHEME_XOR, 4, 1}, rs = {KEDGE__SCHEME_RS, 6, 2},
				       pair = {KEDGE__SCHEME_PARTNER, 2, 1};
	uint32_t node[256];
	uint64_t d = 7;

	(void)state;
	for (uint32_t r = 0; r < 256; r++)
		node[r] = r;
	assert_int_equal(teams_check(&xor4, node, 8), 2);
	assert_int_equal(teams_check(&xor4, node, 5), 1); /* one of five rather than two of three and two */
	assert_int_equal(teams_check(&xor4, node, 7), 2);
	assert_int_equal(teams_check(&pair, node, 3), 1);
	assert_int_equal(teams_check(&pair, node, 7), 3);
	assert_int_equal(teams_check(&rs, node, 6), 1);
	assert_int_equal(teams_check(&rs, node, 3), 1); /* fewer than asked for, but two may be lost */
	assert_int_equal(teams_check(&rs, node, 2), 0);
	assert_int_equal(teams_check(&xor4, node, 1), 0);
	for (uint32_t r = 0; r < 256; r++)
		node[r] = r / 8;
	assert_int_equal(teams_check(&xor4, node, 64), 16);
	assert_int_equal(teams_check(&xor4, node, 16), 8); /* two nodes: pairs */
	assert_int_equal(teams_check(&xor4, node, 8), 0);
	assert_int_equal(teams_check(&xor4, node, 9), 0); /* seven would be alone */
	for (int round = 0; round < 500; round++) {
		uint32_t ranks = 1 + (uint32_t)draw_below(&d, 60), nodes = 1 + (uint32_t)draw_below(&d, 12);

		for (uint32_t r = 0; r < ranks; r++)
			node[r] = (uint32_t)draw_below(&d, nodes);
		for (uint32_t r = 0, count = 0, map[16] = {0}; r < ranks; r++) /* numbers from 0 on, as they come */
			node[r] = map[node[r]] ? map[node[r]] - 1 : (map[node[r]] = ++count) - 1;
		(void)teams_check(&xor4, node, ranks);
		(void)teams_check(&rs, node, ranks);
		(void)teams_check(&pair, node, ranks);
	}
}

static void test_nodes(void **state)
{
	const struct kedge__seat seats[6] = {{"a", 0}, {"b", 1}, {"a", 2}, {"c", 3}, {"d", 3}, {"b", 5}};
	uint32_t node[6], count = 0;
	const uint32_t expected[6] = {0, 1, 0, 2, 2, 1};

	(void)state;
	assert_int_equal(kedge__nodes_number(seats, 6, node, &count, NULL), 0);
	assert_int_equal(count, 3);
	assert_memory_equal(node, expected, sizeof(node));
}

/* ------------------------------------------------------------------ the arithmetic */

#define UNIT 192

/* Whatever M units are lost, the others give the data back. */
static void code_check(uint32_t k, uint32_t m)
{
	_Alignas(64) static uint8_t units[16][UNIT], out[16][UNIT];
	uint8_t rows[256], tables[32 * 256], *data[16], *made[16];
	uint32_t use[16];
	uint64_t d = k * 100 + m;

	for (uint32_t i = 0; i < k; i++)
		draw_bytes(&d, units[i], UNIT);
	for (uint32_t i = 0; i < k + m; i++)
		data[i] = units[i];
	kedge__code_rows(k, m, rows);
	kedge__code_apply(k, m, rows, tables, UNIT, data, data + k);
	for (uint32_t lost = 0; lost < UINT32_C(1) << (k + m); lost++) {
		bool have[16];
		uint32_t count, at = 0;

		if (__builtin_popcount(lost) > (int)m)
			continue;
		for (uint32_t i = 0; i < k + m; i++) {
			have[i] = !(lost >> i & 1);
			made[i] = out[i];
		}
		count = kedge__code_repair(k, m, have, use, rows);
		for (uint32_t i = 0; i < k; i++)
			data[i] = units[use[i]];
		kedge__code_apply(k, count, rows, tables, UNIT, data, made);
		for (uint32_t i = 0; i < k; i++)
			if (!have[i])
				assert_memory_equal(out[at++], units[i], UNIT);
		assert_int_equal(at, count);
	}
}

/* What a shield contains must not depend on the library that made it. */
static void test_code(void **state)
{
	_Alignas(64) static uint8_t units[5][UNIT];
	const uint8_t *bytes = units[0];
	uint8_t rows[6], tables[32 * 6], *data[5];

	(void)state;
	for (uint32_t k = 1; k <= 8; k++)
		for (uint32_t m = 1; m <= 3; m++)
			code_check(k, m);
	for (uint32_t i = 0; i < 3 * UNIT; i++)
		units[i / UNIT][i % UNIT] = (uint8_t)(i * 7 + i / 256);
	for (int i = 0; i < 5; i++)
		data[i] = units[i];
	kedge__code_rows(3, 2, rows);
	kedge__code_apply(3, 2, rows, tables, UNIT, data, data + 3);
	assert_int_equal(kedge__checksum_plain(bytes + (size_t)3 * UNIT, (size_t)2 * UNIT), CODE_SUM);
	kedge__code_rows(3, 1, rows);
	kedge__code_apply(3, 1, rows, tables, UNIT, data, data + 3);
	for (int i = 0; i < UNIT; i++)
		assert_int_equal(units[3][i], units[0][i] ^ units[1][i] ^ units[2][i]);
}

/* ------------------------------------------------------------------ over ranks */

#define LETTER ((size_t)40 << 10)

/* All that a rank sends, to all: [rank, bytes, data]..., and a rank that is none. */
struct letter {
	uint8_t at[LETTER];
};

struct player {
	struct seat *seat;
	struct letter own, all[MEETING_RANKS];
	struct kedge__team_room room;
};

static int move(void *ctx, const struct kedge_transfer *send, size_t sends, const struct kedge_transfer *recv,
		size_t recvs)
{
	struct player *p = ctx;
	size_t at = 0, next[MEETING_RANKS] = {0};
	uint32_t none = UINT32_MAX;

	for (size_t i = 0; i < sends; i++) {
		uint32_t head[2] = {(uint32_t)send[i].rank, (uint32_t)send[i].bytes};

		if (send[i].rank == p->seat->rank || at + sizeof(head) + send[i].bytes + 4 > LETTER)
			return -1;
		memcpy(p->own.at + at, head, sizeof(head));
		memcpy(p->own.at + at + sizeof(head), send[i].data, send[i].bytes);
		at += sizeof(head) + send[i].bytes;
	}
	memcpy(p->own.at + at, &none, sizeof(none));
	if (meet(p->seat, &p->own, sizeof(p->own), p->all))
		return -1;
	for (size_t i = 0; i < recvs; i++) {
		const uint8_t *from = p->all[recv[i].rank].at;
		size_t *n = &next[recv[i].rank];
		uint32_t head[2];

		for (;; *n += sizeof(head) + head[1]) {
			memcpy(head, from + *n, sizeof(head));
			if (head[0] == none)
				return -1; /* nobody sent it */
			if (head[0] == (uint32_t)p->seat->rank)
				break;
		}
		if (head[1] != recv[i].bytes)
			return -1;
		memcpy(recv[i].data, from + *n + sizeof(head), recv[i].bytes);
		*n += sizeof(head) + head[1];
	}
	return 0;
}

#define SEGMENT_MOST 3000

static struct {
	struct kedge__shield shape;
	uint8_t segment[MEETING_RANKS][SEGMENT_MOST], shield[MEETING_RANKS][8 * SEGMENT_MOST];
	uint8_t back[MEETING_RANKS][8 * SEGMENT_MOST];
	int rounds; /* losses that were tried */
} team;

static const uint8_t *memory_get(void *ctx, uint64_t at, size_t bytes, uint8_t *to)
{
	(void)to;
	(void)bytes;
	return (const uint8_t *)ctx + at;
}

static int shield_put(void *ctx, uint64_t row, const uint8_t *units, struct kedge__error *err)
{
	size_t bytes = (size_t)team.shape.parity * team.shape.unit;

	(void)err;
	memcpy((uint8_t *)ctx + row * bytes, units, bytes);
	return 0;
}

static int segment_put(void *ctx, uint64_t row, const uint8_t *units, struct kedge__error *err)
{
	size_t bytes = (size_t)(team.shape.members - team.shape.parity) * team.shape.unit;

	(void)err;
	memcpy((uint8_t *)ctx + row * bytes, units, bytes);
	return 0;
}

/* Of member i's files, the segment is with rank i + SHIFT, the shield with i + 2 * SHIFT: ranks are placed differently.
 */
static void lose(struct player *p, uint32_t lost, uint32_t shields_lost, uint32_t shift)
{
	uint32_t n = team.shape.members, self = (uint32_t)p->seat->rank;
	uint32_t segment_host[MEETING_RANKS], shield_host[MEETING_RANKS];
	struct kedge__unit_source segment[MEETING_RANKS], shield[MEETING_RANKS];
	struct kedge__rebuilding r = {.shape = &team.shape,
				      .segment_host = segment_host,
				      .shield_host = shield_host,
				      .rank = self,
				      .segment = segment,
				      .shield = shield,
				      .put = segment_put,
				      .put_ctx = team.back[self],
				      .mover = {move, p},
				      .room = &p->room};

	for (uint32_t i = 0; i < n; i++) {
		segment_host[i] = lost >> i & 1 ? KEDGE__NO_RANK : (i + shift) % n;
		shield_host[i] = shields_lost >> i & 1 ? KEDGE__NO_RANK : (i + 2 * shift) % n;
		segment[i] = (struct kedge__unit_source){memory_get, team.segment[i], team.shape.at[i].file_bytes};
		shield[i] = (struct kedge__unit_source){memory_get, team.shield[i],
							team.shape.rows * team.shape.parity * team.shape.unit};
	}
	assert_true(kedge__rebuild_possible(&team.shape, segment_host, shield_host));
	assert_true(kedge__rebuild_files(&r) <= 2);
	memset(team.back[self], 0xee, sizeof(team.back[self]));
	assert_int_equal(kedge__rebuild_run(&r, NULL), 0);
	if (lost >> self & 1)
		assert_memory_equal(team.back[self], team.segment[self], team.shape.at[self].file_bytes);
}

static void play(struct seat *front, struct seat *back, void *ctx)
{
	struct player *p = calloc(1, sizeof(*p));
	struct kedge__shield mine = team.shape;
	struct kedge__encoding e = {.shape = &mine, .put = shield_put, .mover = {move, p}, .room = &p->room};
	uint32_t n = mine.members;

	(void)back;
	(void)ctx;
	assert_non_null(p);
	p->seat = front;
	mine.self = (uint32_t)front->rank;
	e.source = (struct kedge__unit_source){memory_get, team.segment[mine.self], mine.at[mine.self].file_bytes};
	e.put_ctx = team.shield[mine.self];
	assert_int_equal(kedge__team_room_init(&p->room, n, 2, mine.unit, NULL), 0);
	assert_int_equal(kedge__encode_run(&e, mine.rows + 3, NULL), 0); /* another team may have more rows */
	for (uint32_t lost = 1; lost < UINT32_C(1) << n; lost++) {
		if (__builtin_popcount(lost) <= (int)mine.parity)
			lose(p, lost, lost, lost % n);
		if (__builtin_popcount(lost) <= (int)mine.parity && mine.parity < mine.members - 1 && lost % 2)
			lose(p, lost, 0, 1); /* segments that were damaged: their shields are there */
	}
	kedge__team_room_done(&p->room);
	free(p);
}

static void over_ranks(uint32_t n, uint32_t m)
{
	uint64_t d = n * 10 + m;

	team.shape = (struct kedge__shield){.scheme = KEDGE__SCHEME_RS, .members = n, .parity = m};
	for (uint32_t i = 0; i < n; i++) {
		team.shape.at[i] =
		    (struct kedge__shield_member){.rank = i, .file_bytes = 1 + draw_below(&d, SEGMENT_MOST - 1)};
		draw_bytes(&d, team.segment[i], SEGMENT_MOST);
	}
	team.shape.at[n / 2].file_bytes = 0;
	kedge__shield_measure(&team.shape);
	if (team.shape.rows == 1) { /* several, as large segments have */
		team.shape.unit = 64;
		team.shape.rows = (SEGMENT_MOST + 64 * (n - m) - 1) / (64 * (n - m));
	}
	ranks_threads((int)n, play, NULL);
}

static void test_over_ranks(void **state)
{
	(void)state;
	over_ranks(2, 1);
	over_ranks(3, 1);
	over_ranks(4, 1);
	over_ranks(6, 2);
	over_ranks(8, 1);
	over_ranks(5, 3);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_schemes), cmocka_unit_test(test_teams),
					   cmocka_unit_test(test_nodes), cmocka_unit_test(test_code),
					   cmocka_unit_test(test_over_ranks)};

	return cases_run(argc, argv, tests, NULL, NULL);
}
