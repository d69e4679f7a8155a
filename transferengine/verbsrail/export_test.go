package verbsrail

// SetFault says how many copies of the rail's n-th handshake datagram go out: 0 loses it.
func (cfg *Config) SetFault(fault func(n int) (copies int)) { cfg.fault = fault }

// Connections is how many connections a rail has, those that are being given up included.
func (r *Rail) Connections() (n int) {
	for _, c := range r.conns {
		if c != nil {
			n++
		}
	}
	return n
}

// BreakDatagrams moves the handshake's queue pair to the error state, as a datagram without a route does on rxe.
func (r *Rail) BreakDatagrams() error { return r.datagrams.qp.SetError() }
