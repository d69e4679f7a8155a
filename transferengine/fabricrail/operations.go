package fabricrail

import (
	"github.com/weftrdma/weft/fabric"
	"github.com/weftrdma/weft/internal/mem"
)

// operations are those in flight, by their place. A provider completes them in any order.
type operations struct {
	table []operation
	free  []uint32

	// The operands of atomic operations, of which as many can be in flight.
	operands     *mem.Buffer
	mr           *fabric.MR
	freeOperands []uint32
}

type operation struct {
	conn       *conn // nil where the place is free
	token      uint64
	generation uint32
	operand    uint32 // its place among the operands, and noOperand where it has none
}

const (
	maxAtomics  = 256
	operandSize = 16 // the operand, and what to compare with
	noOperand   = ^uint32(0)
)

func (o *operations) open(d *fabric.Domain, atomics bool) (err error) {
	if !atomics {
		return nil
	}
	if o.operands, err = mem.Map(maxAtomics * operandSize); err != nil {
		return err
	}
	for i := range uint32(maxAtomics) {
		o.freeOperands = append(o.freeOperands, i)
	}
	o.mr, err = d.RegMR(o.operands.Bytes(), fabric.MRConfig{})
	return err
}

// add gives an operation a place.
func (o *operations) add(c *conn, token uint64) (place uint32) {
	if n := len(o.free); n > 0 {
		place = o.free[n-1]
		o.free = o.free[:n-1]
	} else {
		place = uint32(len(o.table))
		o.table = append(o.table, operation{})
	}
	p := &o.table[place]
	p.conn, p.token, p.operand = c, token, noOperand
	c.flying++
	return place
}

// id is what the operation at a place is posted by.
func (o *operations) id(place uint32) uint64 {
	return newWorkID(workOperation, o.table[place].generation, place)
}

// find returns the operation of a completion, nil if it was given up.
func (o *operations) find(id workID) *operation {
	if int(id.place()) >= len(o.table) {
		return nil
	}
	p := &o.table[id.place()]
	if p.conn == nil || p.generation%maxGenerations != id.generation() {
		return nil
	}
	return p
}

// remove frees a place.
func (o *operations) remove(place uint32) {
	p := &o.table[place]
	p.conn.flying--
	if p.operand != noOperand {
		o.freeOperands = append(o.freeOperands, p.operand)
	}
	p.conn = nil
	p.generation++
	o.free = append(o.free, place)
}

func (o *operations) close() error {
	if o.mr != nil {
		if err := o.mr.Close(); err != nil {
			return err
		}
	}
	if o.operands != nil {
		return o.operands.Close()
	}
	return nil
}

// operand gives the operation at a place room for its operands. There is some.
func (o *operations) operand(place uint32) ([]byte, fabric.Seg) {
	i := o.freeOperands[len(o.freeOperands)-1]
	o.freeOperands = o.freeOperands[:len(o.freeOperands)-1]
	o.table[place].operand = i
	return o.operands.Bytes()[i*operandSize:][:operandSize], o.mr.Seg(uint64(i)*operandSize, operandSize)
}
