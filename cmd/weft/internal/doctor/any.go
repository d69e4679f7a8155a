package doctor

// ExamineAny looks at what --rail auto chooses from. One of the two is enough: what is broken about the other is a warning.
func (s System) ExamineAny() []Finding {
	rdma, sockets := s.Examine(), s.ExamineFabric("tcp")
	if Count(sockets, Broken) == 0 {
		demote(rdma)
	} else if Count(rdma, Broken) == 0 {
		demote(sockets)
	}
	return append(rdma, sockets...)
}

func demote(findings []Finding) {
	for i := range findings {
		if findings[i].Level == Broken {
			findings[i].Level = Warning
		}
	}
}
