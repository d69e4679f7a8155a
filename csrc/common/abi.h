/*
 * Layouts that Go and C share: fixed-size integers only, no pointers, no holes. The Go side mirrors each struct under
 * the name given with it and checks its size at compile time (cgo_linux.go of the binding); csrc/test/abi_test.c checks
 * the offsets.
 */
#ifndef WEFT_COMMON_ABI_H
#define WEFT_COMMON_ABI_H

#include <stdint.h>

/* verbs.SGE; the same layout as struct ibv_sge, so that lists are passed on as they are. */
struct weft_sge {
    uint64_t addr;
    uint32_t length;
    uint32_t lkey;
};

/*
 * verbs.SendWR. The work request takes the next num_sge entries of the list that is posted with it. Its order is that
 * of struct ibv_send_wr, so that it is copied there in few pieces: num_sge and opcode; and of its union remote_addr and
 * rkey, or ah, remote_qpn and remote_qkey.
 */
struct weft_send_wr {
    uint64_t id;
    uint32_t num_sge;
    uint32_t opcode; /* enum ibv_wr_opcode */
    uint32_t flags;  /* enum ibv_send_flags */
    uint32_t imm;    /* host order */
    uint64_t remote_addr;
    uint32_t rkey;
    uint32_t zero;
    uint64_t ah;          /* the reference of an address handle, UD */
    uint32_t remote_qpn;  /* UD */
    uint32_t remote_qkey; /* UD */
    uint64_t compare_add; /* atomics */
    uint64_t swap;        /* compare-and-swap */
};

/* verbs.RecvWR */
struct weft_recv_wr {
    uint64_t id;
    uint32_t num_sge;
    uint32_t zero;
};

/* verbs.WC */
struct weft_wc {
    uint64_t id;
    uint32_t status;
    uint32_t opcode;
    uint32_t vendor_err;
    uint32_t byte_len;
    uint32_t imm; /* host order */
    uint32_t qpn;
    uint32_t src_qpn;
    uint32_t flags;
    uint16_t pkey_index;
    uint16_t slid;
    uint8_t sl;
    uint8_t dlid_path_bits;
    uint16_t zero;
};

/* verbs.WCTime */
struct weft_wc_time {
    uint64_t ticks;
    uint64_t wall_ns;
};

/* verbs.CQTimestamps */
enum weft_time { WEFT_TIME_TICKS = 1, WEFT_TIME_WALL = 2 };

/* Why a work request was refused before anything was posted (verbs.badWR). */
enum weft_bad_wr {
    WEFT_BAD_OPCODE = 1, /* not an opcode of this queue pair's type */
    WEFT_BAD_NUM_SGE,    /* more entries than the queue pair takes */
    WEFT_BAD_SGE_LIST,   /* the list ends before the entries that the work requests name, or goes on after them */
    WEFT_BAD_INLINE,     /* inline data over the queue pair's limit */
    WEFT_BAD_LENGTH,     /* message over the port's largest */
    WEFT_BAD_AH,         /* UD without an address handle of its device */
    WEFT_BAD_ATOMIC,     /* an atomic that is not of 8 bytes at a multiple of 8 */
    WEFT_BAD_UNSIGNALED, /* the queue would be full with nothing signalled */
    WEFT_BAD_FAILED,     /* the queue pair failed before */
    WEFT_BAD_CLOSED,     /* the queue pair was destroyed */
    WEFT_BAD_PATCH,      /* not a prepared request, or not after the one before */
    WEFT_BAD_AH_CLOSED,  /* UD with an address handle that was destroyed */
    WEFT_BAD_QUEUE,      /* receives to a queue pair without a receive queue of its own */
};

/* verbs.Patch: what a post changes in a prepared work request. */
struct weft_patch {
    uint64_t addr;
    uint64_t remote_addr;
    uint32_t length;
    uint32_t index; /* of the prepared work request */
};

/* verbs.failure: why a queue pair failed, its first completion with an error or an asynchronous event. */
struct weft_failure {
    uint64_t id;
    uint32_t status; /* enum ibv_wc_status; 0 for an event */
    uint32_t vendor_err;
    uint32_t event; /* enum ibv_event_type */
    uint32_t zero;
};

/* What a queue pair accepts, checked before each post. */
struct weft_qp_limits {
    uint32_t type; /* enum ibv_qp_type */
    uint32_t max_send_wr;
    uint32_t max_recv_wr;
    uint32_t max_send_sge;
    uint32_t max_recv_sge;
    uint32_t max_inline;
    uint32_t max_message; /* bytes; 0 until the port is known */
    uint32_t builders;    /* whether posts are made by ibv_wr_*: enum weft_builders */
};

/* With windows, they are also bound and invalidated. */
enum weft_builders { WEFT_BUILDERS = 1, WEFT_BUILDERS_WINDOWS = 2 };

/* verbs.SRD: EFA's reliable datagrams, a queue pair of IBV_QPT_DRIVER. No enum ibv_qp_type has the number. */
enum { WEFT_QPT_SRD = 5 };

/* verbs.deviceAttr: the part of struct ibv_device_attr that has users. */
struct weft_device_attr {
    char fw_ver[64];
    uint64_t node_guid;         /* network order, as 8 bytes */
    uint64_t system_image_guid; /* likewise */
    uint64_t max_mr_size;
    uint64_t page_sizes; /* bit n: pages of 2^n bytes */
    uint32_t flags;      /* enum ibv_device_cap_flags */
    uint32_t atomics;    /* enum ibv_atomic_cap */
    uint32_t vendor_id;
    uint32_t vendor_part_id;
    uint32_t hw_ver;
    uint32_t max_qp;
    uint32_t max_qp_wr;
    uint32_t max_sge;
    uint32_t max_cq;
    uint32_t max_cqe;
    uint32_t max_mr;
    uint32_t max_pd;
    uint32_t max_ah;
    uint32_t max_qp_rd_atom;
    uint32_t max_qp_init_rd_atom;
    uint32_t ports;
    uint32_t max_sge_rd;
    uint32_t max_res_rd_atom;
    uint32_t max_mw;
    uint32_t max_srq;
    uint32_t max_srq_wr;
    uint32_t max_srq_sge;
    uint32_t max_mcast_groups;
    uint32_t max_mcast_qps;
    uint32_t max_pkeys;
    uint32_t ack_delay;
};

/* verbs.extendedAttr: the part of struct ibv_device_attr_ex that is neither raw packets, RSS, tags nor device memory.
 */
struct weft_extended_attr {
    uint64_t odp;                       /* enum ibv_odp_general_caps */
    uint64_t completion_timestamp_mask; /* 0 without timestamps */
    uint64_t core_clock_khz;
    uint64_t flags_ex;
    uint32_t odp_rc; /* enum ibv_odp_transport_cap_bits */
    uint32_t odp_uc;
    uint32_t odp_ud;
    uint32_t max_moderation_count;
    uint32_t max_moderation_period; /* microseconds */
    uint32_t rate_limit_min;        /* kbit/s */
    uint32_t rate_limit_max;
    uint32_t rate_limit_types;  /* bits of enum ibv_qp_type */
    uint32_t atomics_fetch_add; /* sizes for PCI atomics, enum ibv_pci_atomic_op_size */
    uint32_t atomics_swap;
    uint32_t atomics_compare_swap;
    uint32_t zero;
};

/* verbs.portAttr */
struct weft_port_attr {
    uint32_t state;
    uint32_t max_mtu;    /* enum ibv_mtu */
    uint32_t active_mtu; /* enum ibv_mtu */
    uint32_t gid_table_len;
    uint32_t max_message;
    uint32_t flags; /* enum ibv_port_cap_flags */
    uint32_t bad_pkeys;
    uint32_t qkey_violations;
    uint16_t lid;
    uint16_t sm_lid;
    uint16_t pkey_table_len;
    uint16_t flags2;
    uint8_t active_width;
    uint8_t active_speed;
    uint8_t phys_state;
    uint8_t link_layer;
    uint8_t lmc;
    uint8_t sm_sl;
    uint8_t subnet_timeout;
    uint8_t virtual_lanes;
};

/* verbs.gidEntry */
struct weft_gid_entry {
    uint8_t gid[16];
    uint32_t index;
    uint32_t port;
    uint32_t type; /* enum ibv_gid_type */
    uint32_t ifindex;
};

/* verbs.ahAttr */
struct weft_ah_attr {
    uint8_t gid[16];
    uint32_t flow_label;
    uint16_t lid;
    uint8_t is_global;
    uint8_t gid_index;
    uint8_t hop_limit;
    uint8_t traffic_class;
    uint8_t service_level;
    uint8_t port;
    uint8_t static_rate; /* enum ibv_rate */
    uint8_t src_path_bits;
    uint16_t zero;
};

/* verbs.qpAttr: what ibv_modify_qp changes; mask is enum ibv_qp_attr_mask. */
struct weft_qp_attr {
    uint32_t mask;
    uint32_t state;
    uint32_t path_mtu; /* enum ibv_mtu */
    uint32_t qkey;
    uint32_t rq_psn;
    uint32_t sq_psn;
    uint32_t remote_qpn;
    uint32_t access;
    uint32_t current_state;
    uint32_t rate_limit; /* kbit/s */
    uint32_t mig_state;  /* enum ibv_mig_state */
    struct weft_ah_attr ah;
    struct weft_ah_attr alt_ah;
    uint16_t pkey_index;
    uint16_t alt_pkey_index;
    uint8_t alt_port;
    uint8_t alt_timeout;
    uint8_t max_rd_atomic;
    uint8_t max_dest_rd_atomic;
    uint8_t min_rnr_timer;
    uint8_t timeout;
    uint8_t retry_count;
    uint8_t rnr_retry;
    uint8_t port;
    uint8_t sqd_notify; /* enable the event that the send queue has drained */
    uint8_t sq_draining;
    uint8_t zero;
};

/*
 * How much a post has, and what became of it: result is 0; a positive errno of the driver; or a negative enum
 * weft_bad_wr for the work request after the accepted ones, in which case nothing was posted.
 */
struct weft_post {
    uint32_t n, num_sge; /* work requests; entries, of all of them */
    int32_t result;
    uint32_t accepted; /* how many the driver took, from the first on */
};

/* verbs.srqAttr */
struct weft_srq_attr {
    uint32_t max_wr;
    uint32_t max_sge;
    uint32_t limit;
};

/* verbs.asyncEvent */
struct weft_async_event {
    uint64_t object;  /* struct ibv_cq *, ibv_qp * or ibv_srq *; 0 for what verbs has no object for */
    uint64_t element; /* as it came, for the acknowledgement */
    uint32_t type;    /* enum ibv_event_type */
    uint32_t port;
};

/* verbs.mwBind */
struct weft_mw_bind {
    uint64_t id;
    uint64_t addr;
    uint64_t length;
    uint32_t access;
    uint32_t flags; /* enum ibv_send_flags */
};

#endif
