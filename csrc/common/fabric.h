/*
 * Layouts that fabric and its shim share, by the rules of abi.h: fixed-size integers only, no pointers, no holes.
 * csrc/test/fabric_abi_test.c checks the offsets.
 */
#ifndef WEFT_COMMON_FABRIC_H
#define WEFT_COMMON_FABRIC_H

#include <stdint.h>

enum { WEFT_FI_NAME = 128, WEFT_FI_ADDR = 256, WEFT_FI_TEXT = 128 };

/* fabric.rawInfo: the parts of struct fi_info that have users. As hints, 0 leaves a choice to the provider. */
struct weft_fi_info {
    uint64_t caps;
    uint64_t mode;
    uint64_t tx_caps;
    uint64_t tx_mode;
    uint64_t tx_op_flags;
    uint64_t tx_msg_order;
    uint64_t tx_comp_order;
    uint64_t tx_inject_size;
    uint64_t tx_size;
    uint64_t tx_iov_limit;
    uint64_t tx_rma_iov_limit;
    uint64_t rx_caps;
    uint64_t rx_mode;
    uint64_t rx_op_flags;
    uint64_t rx_msg_order;
    uint64_t rx_comp_order;
    uint64_t rx_size;
    uint64_t rx_iov_limit;
    uint64_t max_msg_size;
    uint64_t msg_prefix_size;
    uint64_t max_order_raw_size;
    uint64_t max_order_war_size;
    uint64_t max_order_waw_size;
    uint64_t mem_tag_format;
    uint64_t ep_tx_ctx_cnt;
    uint64_t ep_rx_ctx_cnt;
    uint64_t mr_key_size;
    uint64_t cq_data_size;
    uint64_t cq_cnt;
    uint64_t ep_cnt;
    uint64_t max_ep_tx_ctx;
    uint64_t max_ep_rx_ctx;
    uint64_t max_ep_stx_ctx;
    uint64_t max_ep_srx_ctx;
    uint64_t cntr_cnt;
    uint64_t mr_iov_limit;
    uint64_t mr_cnt;
    uint64_t max_err_data;
    uint64_t domain_caps;
    uint64_t domain_mode;
    uint64_t link_speed; /* bits a second; 0 where the provider names no NIC */
    uint64_t link_mtu;
    uint32_t link_state; /* enum fi_link_state */
    uint32_t addr_format;
    uint32_t ep_type; /* enum fi_ep_type */
    uint32_t protocol;
    uint32_t protocol_version;
    uint32_t threading;        /* enum fi_threading */
    uint32_t control_progress; /* enum fi_progress */
    uint32_t data_progress;
    uint32_t resource_mgmt; /* enum fi_resource_mgmt */
    uint32_t av_type;       /* enum fi_av_type */
    uint32_t mr_mode;
    uint32_t tclass;
    uint32_t prov_version;
    uint32_t api_version;
    uint32_t src_addr_len; /* bytes; more than WEFT_FI_ADDR are cut, and the length tells */
    uint32_t dest_addr_len;
    char provider[WEFT_FI_NAME];
    char fabric[WEFT_FI_NAME];
    char domain[WEFT_FI_NAME];
    char nic[WEFT_FI_NAME];
    uint8_t src_addr[WEFT_FI_ADDR];
    uint8_t dest_addr[WEFT_FI_ADDR];
};

/* fabric.Seg */
struct weft_fi_seg {
    uint64_t addr;
    uint64_t length;
    uint32_t lkey; /* 0: memory that is not registered, for operations that take their bytes at once */
    uint32_t zero;
};

/* fabric.Op: a send, receive, write or read, as the post says. It takes the next num_seg segments. */
struct weft_fi_op {
    uint64_t id;
    uint64_t flags;
    uint64_t peer; /* fi_addr_t */
    uint64_t data; /* remote completion data */
    uint64_t tag;
    uint64_t ignore;
    uint64_t remote_addr;
    uint64_t remote_key;
    uint32_t num_seg;
    uint32_t zero;
};

/* fabric.AtomicOp: takes num_seg segments of operands, then as many of what to compare with, then as many for results,
 * of these what the post has. */
struct weft_fi_atomic {
    uint64_t id;
    uint64_t flags;
    uint64_t peer;
    uint64_t data;
    uint64_t remote_addr;
    uint64_t remote_key;
    uint32_t datatype; /* enum fi_datatype */
    uint32_t op;       /* enum fi_op */
    uint32_t num_seg;
    uint32_t zero;
};

/* fabric.Patch: what a post changes in a prepared operation. */
struct weft_fi_patch {
    uint64_t addr;
    uint64_t remote_addr;
    uint64_t length;
    uint32_t index; /* of the prepared operation */
    uint32_t zero;
};

/* What a post does (fabric.kind). */
enum weft_fi_kind { WEFT_FI_SEND, WEFT_FI_RECV, WEFT_FI_TSEND, WEFT_FI_TRECV, WEFT_FI_WRITE, WEFT_FI_READ };
enum weft_fi_atomic_kind { WEFT_FI_ATOMIC, WEFT_FI_FETCH_ATOMIC, WEFT_FI_COMPARE_ATOMIC };

/* Why an operation was refused before anything was posted (fabric.badOp). */
enum weft_fi_bad_op {
    WEFT_FI_BAD_KIND = 1, /* the endpoint has no such operation */
    WEFT_FI_BAD_FLAGS,
    WEFT_FI_BAD_NUM_SEG,  /* more segments than the provider takes */
    WEFT_FI_BAD_SEG_LIST, /* the list ends before the segments that the operations name, or goes on after them */
    WEFT_FI_BAD_LKEY,     /* no open region of the domain */
    WEFT_FI_BAD_BOUNDS,   /* not within that region */
    WEFT_FI_BAD_LENGTH,   /* longer than a message may be */
    WEFT_FI_BAD_INJECT,   /* longer than the provider takes at once */
    WEFT_FI_BAD_PEER,     /* not an address of the endpoint's AV */
    WEFT_FI_BAD_ATOMIC,   /* a datatype and operation that the provider does not have, or a length that does not fit */
    WEFT_FI_BAD_PATCH,    /* not a prepared operation, or not after the one before */
    WEFT_FI_BAD_BUSY,     /* a template that another thread posts */
    WEFT_FI_BAD_QUEUE,    /* the endpoint has no completion queue for it, which was to be polled */
};

/* fabric.postPolled: what became of a post, and of the poll after it. */
struct weft_fi_post_polled {
    int32_t result; /* of the post */
    uint32_t accepted;
    int32_t completed; /* of the poll */
    uint32_t zero;
};

/* fabric.Completion */
struct weft_fi_completion {
    uint64_t id;
    uint64_t flags;
    uint64_t length;
    uint64_t addr; /* where a multi-receive buffer took the message */
    uint64_t data;
    uint64_t tag;
    uint64_t source; /* fi_addr_t */
    uint32_t err;    /* 0 for success */
    uint32_t failure;
};

/* fabric.failure: what a queue keeps of a completion with an error. */
struct weft_fi_failure {
    uint64_t overflow; /* bytes that did not fit */
    uint32_t number;   /* as in the completion */
    int32_t prov_errno;
    uint32_t data_size; /* of data, cut at its end */
    uint32_t zero;
    char text[WEFT_FI_TEXT]; /* the provider's */
    uint8_t data[WEFT_FI_TEXT];
};

/* fabric.rawEvent */
struct weft_fi_event {
    uint64_t object;  /* struct fid * */
    uint64_t context; /* as given to what the event completes */
    uint64_t data;
    uint64_t info; /* struct fi_info * of a connection request, which becomes the caller's */
    uint32_t type; /* FI_CONNREQ …; meaningless with err */
    uint32_t err;  /* 0 for success */
    int32_t prov_errno;
    uint32_t param_len;
    uint8_t param[WEFT_FI_ADDR]; /* what the peer sent along */
    char text[WEFT_FI_TEXT];     /* the provider's, with err */
};

/* fabric.rawMR: a region to register, and what became of it. */
struct weft_fi_mr_attr {
    uint64_t addr;
    uint64_t length;
    uint64_t access;
    uint64_t offset;        /* of a dma-buf */
    uint64_t requested_key; /* then the key */
    uint64_t flags;
    uint64_t device; /* of iface */
    uint32_t iface;  /* enum fi_hmem_iface */
    int32_t fd;      /* of a dma-buf; -1 for none */
    uint32_t lkey;   /* out */
    uint32_t zero;
};

#endif
