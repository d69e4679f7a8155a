/*
 * The layouts that fabric mirrors, as abi_test.c has those of verbs: the Go side compares sizes alone, so that two
 * fields of one size could change places unnoticed; the offsets here hold the order. All of it is checked by the
 * compiler.
 */
#include <stddef.h>
#include <stdint.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wpadded"
#include "../common/fabric.h"
#pragma GCC diagnostic pop

#define SIZE(type, size)        _Static_assert(sizeof(struct type) == (size), "size of " #type)
#define AT(type, field, offset) _Static_assert(offsetof(struct type, field) == (offset), #type "." #field)

SIZE(weft_fi_info, 1424);
AT(weft_fi_info, caps, 0);
AT(weft_fi_info, mode, 8);
AT(weft_fi_info, tx_caps, 16);
AT(weft_fi_info, tx_mode, 24);
AT(weft_fi_info, tx_op_flags, 32);
AT(weft_fi_info, tx_msg_order, 40);
AT(weft_fi_info, tx_comp_order, 48);
AT(weft_fi_info, tx_inject_size, 56);
AT(weft_fi_info, tx_size, 64);
AT(weft_fi_info, tx_iov_limit, 72);
AT(weft_fi_info, tx_rma_iov_limit, 80);
AT(weft_fi_info, rx_caps, 88);
AT(weft_fi_info, rx_mode, 96);
AT(weft_fi_info, rx_op_flags, 104);
AT(weft_fi_info, rx_msg_order, 112);
AT(weft_fi_info, rx_comp_order, 120);
AT(weft_fi_info, rx_size, 128);
AT(weft_fi_info, rx_iov_limit, 136);
AT(weft_fi_info, max_msg_size, 144);
AT(weft_fi_info, msg_prefix_size, 152);
AT(weft_fi_info, max_order_raw_size, 160);
AT(weft_fi_info, max_order_war_size, 168);
AT(weft_fi_info, max_order_waw_size, 176);
AT(weft_fi_info, mem_tag_format, 184);
AT(weft_fi_info, ep_tx_ctx_cnt, 192);
AT(weft_fi_info, ep_rx_ctx_cnt, 200);
AT(weft_fi_info, mr_key_size, 208);
AT(weft_fi_info, cq_data_size, 216);
AT(weft_fi_info, cq_cnt, 224);
AT(weft_fi_info, ep_cnt, 232);
AT(weft_fi_info, max_ep_tx_ctx, 240);
AT(weft_fi_info, max_ep_rx_ctx, 248);
AT(weft_fi_info, max_ep_stx_ctx, 256);
AT(weft_fi_info, max_ep_srx_ctx, 264);
AT(weft_fi_info, cntr_cnt, 272);
AT(weft_fi_info, mr_iov_limit, 280);
AT(weft_fi_info, mr_cnt, 288);
AT(weft_fi_info, max_err_data, 296);
AT(weft_fi_info, domain_caps, 304);
AT(weft_fi_info, domain_mode, 312);
AT(weft_fi_info, link_speed, 320);
AT(weft_fi_info, link_mtu, 328);
AT(weft_fi_info, link_state, 336);
AT(weft_fi_info, addr_format, 340);
AT(weft_fi_info, ep_type, 344);
AT(weft_fi_info, protocol, 348);
AT(weft_fi_info, protocol_version, 352);
AT(weft_fi_info, threading, 356);
AT(weft_fi_info, control_progress, 360);
AT(weft_fi_info, data_progress, 364);
AT(weft_fi_info, resource_mgmt, 368);
AT(weft_fi_info, av_type, 372);
AT(weft_fi_info, mr_mode, 376);
AT(weft_fi_info, tclass, 380);
AT(weft_fi_info, prov_version, 384);
AT(weft_fi_info, api_version, 388);
AT(weft_fi_info, src_addr_len, 392);
AT(weft_fi_info, dest_addr_len, 396);
AT(weft_fi_info, provider, 400);
AT(weft_fi_info, fabric, 528);
AT(weft_fi_info, domain, 656);
AT(weft_fi_info, nic, 784);
AT(weft_fi_info, src_addr, 912);
AT(weft_fi_info, dest_addr, 1168);

SIZE(weft_fi_seg, 24);
AT(weft_fi_seg, addr, 0);
AT(weft_fi_seg, length, 8);
AT(weft_fi_seg, lkey, 16);
AT(weft_fi_seg, zero, 20);

SIZE(weft_fi_op, 72);
AT(weft_fi_op, id, 0);
AT(weft_fi_op, flags, 8);
AT(weft_fi_op, peer, 16);
AT(weft_fi_op, data, 24);
AT(weft_fi_op, tag, 32);
AT(weft_fi_op, ignore, 40);
AT(weft_fi_op, remote_addr, 48);
AT(weft_fi_op, remote_key, 56);
AT(weft_fi_op, num_seg, 64);
AT(weft_fi_op, zero, 68);

SIZE(weft_fi_atomic, 64);
AT(weft_fi_atomic, id, 0);
AT(weft_fi_atomic, flags, 8);
AT(weft_fi_atomic, peer, 16);
AT(weft_fi_atomic, data, 24);
AT(weft_fi_atomic, remote_addr, 32);
AT(weft_fi_atomic, remote_key, 40);
AT(weft_fi_atomic, datatype, 48);
AT(weft_fi_atomic, op, 52);
AT(weft_fi_atomic, num_seg, 56);
AT(weft_fi_atomic, zero, 60);

SIZE(weft_fi_patch, 32);
AT(weft_fi_patch, addr, 0);
AT(weft_fi_patch, remote_addr, 8);
AT(weft_fi_patch, length, 16);
AT(weft_fi_patch, index, 24);
AT(weft_fi_patch, zero, 28);

SIZE(weft_fi_post_polled, 16);
AT(weft_fi_post_polled, result, 0);
AT(weft_fi_post_polled, accepted, 4);
AT(weft_fi_post_polled, completed, 8);
AT(weft_fi_post_polled, zero, 12);

SIZE(weft_fi_completion, 64);
AT(weft_fi_completion, id, 0);
AT(weft_fi_completion, flags, 8);
AT(weft_fi_completion, length, 16);
AT(weft_fi_completion, addr, 24);
AT(weft_fi_completion, data, 32);
AT(weft_fi_completion, tag, 40);
AT(weft_fi_completion, source, 48);
AT(weft_fi_completion, err, 56);
AT(weft_fi_completion, failure, 60);

SIZE(weft_fi_failure, 280);
AT(weft_fi_failure, overflow, 0);
AT(weft_fi_failure, number, 8);
AT(weft_fi_failure, prov_errno, 12);
AT(weft_fi_failure, data_size, 16);
AT(weft_fi_failure, zero, 20);
AT(weft_fi_failure, text, 24);
AT(weft_fi_failure, data, 152);

SIZE(weft_fi_event, 432);
AT(weft_fi_event, object, 0);
AT(weft_fi_event, context, 8);
AT(weft_fi_event, data, 16);
AT(weft_fi_event, info, 24);
AT(weft_fi_event, type, 32);
AT(weft_fi_event, err, 36);
AT(weft_fi_event, prov_errno, 40);
AT(weft_fi_event, param_len, 44);
AT(weft_fi_event, param, 48);
AT(weft_fi_event, text, 304);

SIZE(weft_fi_mr_attr, 72);
AT(weft_fi_mr_attr, addr, 0);
AT(weft_fi_mr_attr, length, 8);
AT(weft_fi_mr_attr, access, 16);
AT(weft_fi_mr_attr, offset, 24);
AT(weft_fi_mr_attr, requested_key, 32);
AT(weft_fi_mr_attr, flags, 40);
AT(weft_fi_mr_attr, device, 48);
AT(weft_fi_mr_attr, iface, 56);
AT(weft_fi_mr_attr, fd, 60);
AT(weft_fi_mr_attr, lkey, 64);
AT(weft_fi_mr_attr, zero, 68);

int main(void)
{
    return 0;
}
