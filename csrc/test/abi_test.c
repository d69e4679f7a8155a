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

SIZE(weft_send_wr, 56);
AT(weft_send_wr, id, 0);
AT(weft_send_wr, opcode, 8);
AT(weft_send_wr, flags, 12);
AT(weft_send_wr, imm, 16);
AT(weft_send_wr, num_sge, 20);
AT(weft_send_wr, remote_addr, 24);
AT(weft_send_wr, ah, 32);
AT(weft_send_wr, rkey, 40);
AT(weft_send_wr, remote_qpn, 44);
AT(weft_send_wr, remote_qkey, 48);

SIZE(weft_recv_wr, 16);
AT(weft_recv_wr, id, 0);
AT(weft_recv_wr, num_sge, 8);

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

SIZE(weft_qp_limits, 32);
AT(weft_qp_limits, type, 0);
AT(weft_qp_limits, max_send_wr, 4);
AT(weft_qp_limits, max_recv_wr, 8);
AT(weft_qp_limits, max_send_sge, 12);
AT(weft_qp_limits, max_recv_sge, 16);
AT(weft_qp_limits, max_inline, 20);
AT(weft_qp_limits, max_message, 24);

SIZE(weft_device_attr, 136);
AT(weft_device_attr, fw_ver, 0);
AT(weft_device_attr, node_guid, 64);
AT(weft_device_attr, max_mr_size, 72);
AT(weft_device_attr, vendor_id, 80);
AT(weft_device_attr, vendor_part_id, 84);
AT(weft_device_attr, hw_ver, 88);
AT(weft_device_attr, max_qp, 92);
AT(weft_device_attr, max_qp_wr, 96);
AT(weft_device_attr, max_sge, 100);
AT(weft_device_attr, max_cq, 104);
AT(weft_device_attr, max_cqe, 108);
AT(weft_device_attr, max_mr, 112);
AT(weft_device_attr, max_pd, 116);
AT(weft_device_attr, max_ah, 120);
AT(weft_device_attr, max_qp_rd_atom, 124);
AT(weft_device_attr, max_qp_init_rd_atom, 128);
AT(weft_device_attr, ports, 132);

SIZE(weft_port_attr, 28);
AT(weft_port_attr, state, 0);
AT(weft_port_attr, max_mtu, 4);
AT(weft_port_attr, active_mtu, 8);
AT(weft_port_attr, gid_table_len, 12);
AT(weft_port_attr, max_message, 16);
AT(weft_port_attr, lid, 20);
AT(weft_port_attr, pkey_table_len, 22);
AT(weft_port_attr, active_width, 24);
AT(weft_port_attr, active_speed, 25);
AT(weft_port_attr, phys_state, 26);
AT(weft_port_attr, link_layer, 27);

SIZE(weft_gid_entry, 32);
AT(weft_gid_entry, gid, 0);
AT(weft_gid_entry, index, 16);
AT(weft_gid_entry, port, 20);
AT(weft_gid_entry, type, 24);
AT(weft_gid_entry, ifindex, 28);

SIZE(weft_ah_attr, 28);
AT(weft_ah_attr, gid, 0);
AT(weft_ah_attr, flow_label, 16);
AT(weft_ah_attr, lid, 20);
AT(weft_ah_attr, is_global, 22);
AT(weft_ah_attr, gid_index, 23);
AT(weft_ah_attr, hop_limit, 24);
AT(weft_ah_attr, traffic_class, 25);
AT(weft_ah_attr, service_level, 26);
AT(weft_ah_attr, port, 27);

SIZE(weft_qp_attr, 72);
AT(weft_qp_attr, mask, 0);
AT(weft_qp_attr, state, 4);
AT(weft_qp_attr, path_mtu, 8);
AT(weft_qp_attr, qkey, 12);
AT(weft_qp_attr, rq_psn, 16);
AT(weft_qp_attr, sq_psn, 20);
AT(weft_qp_attr, remote_qpn, 24);
AT(weft_qp_attr, access, 28);
AT(weft_qp_attr, ah, 32);
AT(weft_qp_attr, pkey_index, 60);
AT(weft_qp_attr, max_rd_atomic, 62);
AT(weft_qp_attr, max_dest_rd_atomic, 63);
AT(weft_qp_attr, min_rnr_timer, 64);
AT(weft_qp_attr, timeout, 65);
AT(weft_qp_attr, retry_count, 66);
AT(weft_qp_attr, rnr_retry, 67);
AT(weft_qp_attr, port, 68);

int main(void)
{
    return 0;
}
