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

/* verbs.SendWR. The work request takes the next num_sge entries of the list that is posted with it. */
struct weft_send_wr {
    uint64_t id;
    uint32_t opcode; /* enum ibv_wr_opcode */
    uint32_t flags;  /* enum ibv_send_flags */
    uint32_t imm;    /* host order */
    uint32_t num_sge;
    uint64_t remote_addr;
    uint64_t ah; /* struct ibv_ah *, UD */
    uint32_t rkey;
    uint32_t remote_qpn;  /* UD */
    uint32_t remote_qkey; /* UD */
    uint32_t zero;
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

/* Why a work request was refused before anything was posted (verbs.badWR). */
enum weft_bad_wr {
    WEFT_BAD_OPCODE = 1, /* not an opcode of this queue pair's type */
    WEFT_BAD_NUM_SGE,    /* more entries than the queue pair takes */
    WEFT_BAD_SGE_LIST,   /* the list ends before the entries that the work requests name, or goes on after them */
    WEFT_BAD_INLINE,     /* inline data over the queue pair's limit */
    WEFT_BAD_LENGTH,     /* message over the port's largest */
    WEFT_BAD_AH,         /* UD without an address handle */
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
    uint32_t zero;
};

/* verbs.deviceAttr: the part of struct ibv_device_attr that has users. */
struct weft_device_attr {
    char fw_ver[64];
    uint64_t node_guid; /* network order, as 8 bytes */
    uint64_t max_mr_size;
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
};

/* verbs.portAttr */
struct weft_port_attr {
    uint32_t state;
    uint32_t max_mtu;    /* enum ibv_mtu */
    uint32_t active_mtu; /* enum ibv_mtu */
    uint32_t gid_table_len;
    uint32_t max_message;
    uint16_t lid;
    uint16_t pkey_table_len;
    uint8_t active_width;
    uint8_t active_speed;
    uint8_t phys_state;
    uint8_t link_layer;
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
    struct weft_ah_attr ah;
    uint16_t pkey_index;
    uint8_t max_rd_atomic;
    uint8_t max_dest_rd_atomic;
    uint8_t min_rnr_timer;
    uint8_t timeout;
    uint8_t retry_count;
    uint8_t rnr_retry;
    uint8_t port;
    uint8_t zero[3];
};

#endif
