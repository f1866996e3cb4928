/*
 * For programs that make mistakes and read the library's reports.
 */
#ifndef REPORT_H
#define REPORT_H

#include "network.h"

#include <sys/mman.h>
#include <sys/stat.h>

static char report_path[] = "/tmp/ibverbs-report-XXXXXX";

/* Has the reports of IBVERBS_EXPLAIN and the like go to a file of this program. */
static inline void report_to_file(const char *variable, const char *prefix)
{
	char value[64];
	int fd = mkstemp(report_path);

	expect(fd >= 0);
	close(fd);
	snprintf(value, sizeof(value), "%s%s", prefix, report_path);
	setenv(variable, value, 1);
}

/* The reports since the last call. */
static inline const char *report_take(void)
{
	static char text[65536];
	int fd = open(report_path, O_RDWR);
	ssize_t length;

	expect(fd >= 0);
	length = read(fd, text, sizeof(text) - 1);
	expect(length >= 0);
	text[length] = '\0';
	expect(ftruncate(fd, 0) == 0);
	close(fd);
	return text;
}

/* How much was reported since report_take(); another process may be the one that reports. */
static inline off_t report_size(void)
{
	struct stat about;

	expect(stat(report_path, &about) == 0);
	return about.st_size;
}

/* The reports since the last call must have each of these words, the last being NULL. */
static inline void report_has(const char *title, ...)
{
	const char *text = report_take(), *word;
	va_list words;

	va_start(words, title);
	while ((word = va_arg(words, const char *))) {
		if (strstr(text, word))
			continue;
		fprintf(stderr, "%s: \"%s\" is not in:\n%s\n", title, word, text);
		expect(!"reported");
	}
	va_end(words);
	out("%s", title);
}

/* Nothing must have been reported since the last call. */
static inline void report_nothing(const char *title)
{
	const char *text = report_take();

	if (*text)
		fprintf(stderr, "%s: reported:\n%s\n", title, text);
	expect(!*text);
	out("%s: nothing", title);
}

/* A network of the program's own with uroce on lo, or false where none may be made. */
static inline bool own_uroce(void)
{
	if (!own_network())
		return false;
	expect(system("ip link set lo up") == 0);
	setenv("UROCE_DEVICES", "lo", 1);
	return true;
}

/* The device of that name, opened, or NULL. */
static inline struct ibv_context *open_device_named(const char *name)
{
	struct ibv_context *context = NULL;
	struct ibv_device **list = ibv_get_device_list(NULL);
	int i;

	for (i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			context = MUST_PTR(ibv_open_device(list[i]));
	if (list)
		ibv_free_device_list(list);
	return context;
}

/* A connected pair of RC queue pairs on one device, and the objects that they need. */
struct two {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp[2];
	struct ibv_mr *mr;
	char *buffer;
	int gid_index;
};

enum { TWO_BYTES = 8192, TWO_WR = 4, TWO_CQE = 64 };

static inline struct ibv_qp *two_qp(struct two *t, int sq_sig_all)
{
	struct ibv_qp_init_attr init = {
		.send_cq = t->cq,
		.recv_cq = t->cq,
		.cap = { TWO_WR, TWO_WR, 1, 1, 16 },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = sq_sig_all,
	};

	return MUST_PTR(ibv_create_qp(t->pd, &init));
}

static inline void two_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
	};

	MUST(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			   IBV_QP_ACCESS_FLAGS));
}

static inline struct ibv_qp_attr two_rtr_attr(struct two *t, uint32_t peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_256,
		.dest_qp_num = peer,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {
			.is_global = 1,
			.port_num = 1,
			.grh = { .hop_limit = 64, .sgid_index = (uint8_t)t->gid_index },
		},
	};

	MUST(ibv_query_gid(t->context, 1, t->gid_index, &attr.ah_attr.grh.dgid));
	return attr;
}

#define RTR_MASK                                                                   \
	(IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |    \
	 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RTS_MASK                                                                   \
	(IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |             \
	 IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC)

static inline void two_connect(struct two *t, struct ibv_qp *qp, uint32_t peer)
{
	struct ibv_qp_attr rtr = two_rtr_attr(t, peer);
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 1,
		.max_rd_atomic = 1,
	};

	MUST(ibv_modify_qp(qp, &rtr, RTR_MASK));
	MUST(ibv_modify_qp(qp, &rts, RTS_MASK));
}

/* A queue pair for requests by calls, connected to itself, with room for that many each way. */
static inline struct ibv_qp *two_by_calls(struct two *t, uint32_t room)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = t->cq,
		.recv_cq = t->cq,
		.cap = { room, room, 1, 1, 16 },
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = t->pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	struct ibv_qp *qp = MUST_PTR(ibv_create_qp_ex(t->context, &init));

	two_init(qp);
	two_connect(t, qp, qp->qp_num);
	return qp;
}

static inline void two_open(struct two *t, struct ibv_context *context, int gid_index,
			    int sq_sig_all)
{
	int i;

	t->context = context;
	t->gid_index = gid_index;
	t->pd = MUST_PTR(ibv_alloc_pd(context));
	t->cq = MUST_PTR(ibv_create_cq(context, TWO_CQE, NULL, NULL, 0));
	t->buffer = MUST_PTR(aligned_alloc(4096, TWO_BYTES));
	t->mr = MUST_PTR(ibv_reg_mr(t->pd, t->buffer, TWO_BYTES,
				    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
	for (i = 0; i < 2; i++) {
		t->qp[i] = two_qp(t, sq_sig_all);
		two_init(t->qp[i]);
	}
	for (i = 0; i < 2; i++)
		two_connect(t, t->qp[i], t->qp[1 - i]->qp_num);
}

static inline void two_close(struct two *t)
{
	MUST(ibv_destroy_qp(t->qp[0]));
	MUST(ibv_destroy_qp(t->qp[1]));
	MUST(ibv_dereg_mr(t->mr));
	MUST(ibv_destroy_cq(t->cq));
	MUST(ibv_dealloc_pd(t->pd));
	free(t->buffer);
}

/* The next completion; its status. */
static inline enum ibv_wc_status two_wait(struct two *t, struct ibv_wc *wc)
{
	int count;

	while (!(count = ibv_poll_cq(t->cq, 1, wc)))
		;
	expect(count == 1);
	if (wc->status != IBV_WC_SUCCESS)
		out("a completion: %s", ibv_wc_status_str(wc->status));
	return wc->status;
}

static inline struct ibv_sge two_piece(struct two *t, uint32_t length)
{
	struct ibv_sge sge = { (uintptr_t)t->buffer, length, t->mr->lkey };

	return sge;
}

enum { TWO_SGES = 1000 };

/*
 * A list at the end of readable memory. It has one piece, or TWO_SGES over soft-RoCE: rdma-core's
 * provider for it reads the list of a send request before it refuses the number of pieces.
 */
static inline struct ibv_sge *two_last_piece(struct two *t, uint32_t length)
{
	bool rxe = !strncmp(ibv_get_device_name(t->context->device), "rxe", 3);
	size_t readable = TWO_SGES * sizeof(struct ibv_sge) / 4096 * 4096 + 4096;
	char *pages = mmap(NULL, readable + 4096, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_sge *list;
	int i, count = rxe ? TWO_SGES : 1;

	expect(pages != MAP_FAILED);
	MUST(mprotect(pages + readable, 4096, PROT_NONE));
	list = (struct ibv_sge *)(pages + readable) - count;
	for (i = 0; i < count; i++)
		list[i] = two_piece(t, length);
	return list;
}

#endif
