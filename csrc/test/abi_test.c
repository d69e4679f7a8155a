/*
 * The layouts that Go mirrors. verbs compares sizes alone, so that two fields of one size could change places
 * unnoticed; the offsets here hold the order. All of it is checked by the compiler.
 */
#include <stddef.h>
#include <stdint.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wpadded"
#include "../common/abi.h"
#pragma GCC diagnostic pop

#define SIZE(type, size)        _Static_assert(sizeof(struct type) == (size), "size of " #type)
#define AT(type, field, offset) _Static_assert(offsetof(struct type, field) == (offset), #type "." #field)

SIZE(weft_sge, 16);
AT(weft_sge, addr, 0);
AT(weft_sge, length, 8);
AT(weft_sge, lkey, 12);

SIZE(weft_send_wr, 72);
AT(weft_send_wr, id, 0);
AT(weft_send_wr, num_sge, 8);
AT(weft_send_wr, opcode, 12);
AT(weft_send_wr, flags, 16);
AT(weft_send_wr, imm, 20);
AT(weft_send_wr, remote_addr, 24);
AT(weft_send_wr, rkey, 32);
AT(weft_send_wr, ah, 40);
AT(weft_send_wr, remote_qpn, 48);
AT(weft_send_wr, remote_qkey, 52);
AT(weft_send_wr, compare_add, 56);
AT(weft_send_wr, swap, 64);

SIZE(weft_recv_wr, 16);
AT(weft_recv_wr, id, 0);
AT(weft_recv_wr, num_sge, 8);

SIZE(weft_wc_time, 16);
AT(weft_wc_time, ticks, 0);
AT(weft_wc_time, wall_ns, 8);

SIZE(weft_wc, 48);
AT(weft_wc, id, 0);
AT(weft_wc, status, 8);
AT(weft_wc, opcode, 12);
AT(weft_wc, vendor_err, 16);
AT(weft_wc, byte_len, 20);
AT(weft_wc, imm, 24);
AT(weft_wc, qpn, 28);
AT(weft_wc, src_qpn, 32);
AT(weft_wc, flags, 36);
AT(weft_wc, pkey_index, 40);
AT(weft_wc, slid, 42);
AT(weft_wc, sl, 44);
AT(weft_wc, dlid_path_bits, 45);

SIZE(weft_patch, 24);
AT(weft_patch, addr, 0);
AT(weft_patch, remote_addr, 8);
AT(weft_patch, length, 16);
AT(weft_patch, index, 20);

SIZE(weft_failure, 24);
AT(weft_failure, id, 0);
AT(weft_failure, status, 8);
AT(weft_failure, vendor_err, 12);
AT(weft_failure, event, 16);

SIZE(weft_qp_limits, 32);
AT(weft_qp_limits, type, 0);
AT(weft_qp_limits, max_send_wr, 4);
AT(weft_qp_limits, max_recv_wr, 8);
AT(weft_qp_limits, max_send_sge, 12);
AT(weft_qp_limits, max_recv_sge, 16);
AT(weft_qp_limits, max_inline, 20);
AT(weft_qp_limits, max_message, 24);
AT(weft_qp_limits, builders, 28);

SIZE(weft_device_attr, 200);
AT(weft_device_attr, fw_ver, 0);
AT(weft_device_attr, node_guid, 64);
AT(weft_device_attr, system_image_guid, 72);
AT(weft_device_attr, max_mr_size, 80);
AT(weft_device_attr, page_sizes, 88);
AT(weft_device_attr, flags, 96);
AT(weft_device_attr, atomics, 100);
AT(weft_device_attr, vendor_id, 104);
AT(weft_device_attr, vendor_part_id, 108);
AT(weft_device_attr, hw_ver, 112);
AT(weft_device_attr, max_qp, 116);
AT(weft_device_attr, max_qp_wr, 120);
AT(weft_device_attr, max_sge, 124);
AT(weft_device_attr, max_cq, 128);
AT(weft_device_attr, max_cqe, 132);
AT(weft_device_attr, max_mr, 136);
AT(weft_device_attr, max_pd, 140);
AT(weft_device_attr, max_ah, 144);
AT(weft_device_attr, max_qp_rd_atom, 148);
AT(weft_device_attr, max_qp_init_rd_atom, 152);
AT(weft_device_attr, ports, 156);
AT(weft_device_attr, max_sge_rd, 160);
AT(weft_device_attr, max_res_rd_atom, 164);
AT(weft_device_attr, max_mw, 168);
AT(weft_device_attr, max_srq, 172);
AT(weft_device_attr, max_srq_wr, 176);
AT(weft_device_attr, max_srq_sge, 180);
AT(weft_device_attr, max_mcast_groups, 184);
AT(weft_device_attr, max_mcast_qps, 188);
AT(weft_device_attr, max_pkeys, 192);
AT(weft_device_attr, ack_delay, 196);

SIZE(weft_extended_attr, 80);
AT(weft_extended_attr, odp, 0);
AT(weft_extended_attr, completion_timestamp_mask, 8);
AT(weft_extended_attr, core_clock_khz, 16);
AT(weft_extended_attr, flags_ex, 24);
AT(weft_extended_attr, odp_rc, 32);
AT(weft_extended_attr, odp_uc, 36);
AT(weft_extended_attr, odp_ud, 40);
AT(weft_extended_attr, max_moderation_count, 44);
AT(weft_extended_attr, max_moderation_period, 48);
AT(weft_extended_attr, rate_limit_min, 52);
AT(weft_extended_attr, rate_limit_max, 56);
AT(weft_extended_attr, rate_limit_types, 60);
AT(weft_extended_attr, atomics_fetch_add, 64);
AT(weft_extended_attr, atomics_swap, 68);
AT(weft_extended_attr, atomics_compare_swap, 72);

SIZE(weft_port_attr, 48);
AT(weft_port_attr, state, 0);
AT(weft_port_attr, max_mtu, 4);
AT(weft_port_attr, active_mtu, 8);
AT(weft_port_attr, gid_table_len, 12);
AT(weft_port_attr, max_message, 16);
AT(weft_port_attr, flags, 20);
AT(weft_port_attr, bad_pkeys, 24);
AT(weft_port_attr, qkey_violations, 28);
AT(weft_port_attr, lid, 32);
AT(weft_port_attr, sm_lid, 34);
AT(weft_port_attr, pkey_table_len, 36);
AT(weft_port_attr, flags2, 38);
AT(weft_port_attr, active_width, 40);
AT(weft_port_attr, active_speed, 41);
AT(weft_port_attr, phys_state, 42);
AT(weft_port_attr, link_layer, 43);
AT(weft_port_attr, lmc, 44);
AT(weft_port_attr, sm_sl, 45);
AT(weft_port_attr, subnet_timeout, 46);
AT(weft_port_attr, virtual_lanes, 47);

SIZE(weft_gid_entry, 32);
AT(weft_gid_entry, gid, 0);
AT(weft_gid_entry, index, 16);
AT(weft_gid_entry, port, 20);
AT(weft_gid_entry, type, 24);
AT(weft_gid_entry, ifindex, 28);

SIZE(weft_ah_attr, 32);
AT(weft_ah_attr, gid, 0);
AT(weft_ah_attr, flow_label, 16);
AT(weft_ah_attr, lid, 20);
AT(weft_ah_attr, is_global, 22);
AT(weft_ah_attr, gid_index, 23);
AT(weft_ah_attr, hop_limit, 24);
AT(weft_ah_attr, traffic_class, 25);
AT(weft_ah_attr, service_level, 26);
AT(weft_ah_attr, port, 27);
AT(weft_ah_attr, static_rate, 28);
AT(weft_ah_attr, src_path_bits, 29);

SIZE(weft_qp_attr, 124);
AT(weft_qp_attr, mask, 0);
AT(weft_qp_attr, state, 4);
AT(weft_qp_attr, path_mtu, 8);
AT(weft_qp_attr, qkey, 12);
AT(weft_qp_attr, rq_psn, 16);
AT(weft_qp_attr, sq_psn, 20);
AT(weft_qp_attr, remote_qpn, 24);
AT(weft_qp_attr, access, 28);
AT(weft_qp_attr, current_state, 32);
AT(weft_qp_attr, rate_limit, 36);
AT(weft_qp_attr, mig_state, 40);
AT(weft_qp_attr, ah, 44);
AT(weft_qp_attr, alt_ah, 76);
AT(weft_qp_attr, pkey_index, 108);
AT(weft_qp_attr, alt_pkey_index, 110);
AT(weft_qp_attr, alt_port, 112);
AT(weft_qp_attr, alt_timeout, 113);
AT(weft_qp_attr, max_rd_atomic, 114);
AT(weft_qp_attr, max_dest_rd_atomic, 115);
AT(weft_qp_attr, min_rnr_timer, 116);
AT(weft_qp_attr, timeout, 117);
AT(weft_qp_attr, retry_count, 118);
AT(weft_qp_attr, rnr_retry, 119);
AT(weft_qp_attr, port, 120);
AT(weft_qp_attr, sqd_notify, 121);
AT(weft_qp_attr, sq_draining, 122);

SIZE(weft_srq_attr, 12);
AT(weft_srq_attr, max_wr, 0);
AT(weft_srq_attr, max_sge, 4);
AT(weft_srq_attr, limit, 8);

SIZE(weft_async_event, 24);
AT(weft_async_event, object, 0);
AT(weft_async_event, element, 8);
AT(weft_async_event, type, 16);
AT(weft_async_event, port, 20);

SIZE(weft_mw_bind, 32);
AT(weft_mw_bind, id, 0);
AT(weft_mw_bind, addr, 8);
AT(weft_mw_bind, length, 16);
AT(weft_mw_bind, access, 24);
AT(weft_mw_bind, flags, 28);

int main(void)
{
    return 0;
}
