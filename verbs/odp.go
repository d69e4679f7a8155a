package verbs

import (
	"errors"
	"fmt"
	"math"
)

// everything is the length of a region that is the whole address space.
const everything = math.MaxUint64

// RegImplicit registers the whole address space of this process, what is mapped now and later: a region at address 0 whose keys
// reach any memory, without registering it and without pinning it ([AccessOnDemand] is understood). Pages are fetched when the
// device needs them; which operations may use them is [ExtendedAttr].ODPRC and its like. With remote rights a peer reaches all
// memory of the process. Where the device cannot do it the error wraps [errors.ErrUnsupported].
func (pd *PD) RegImplicit(access AccessFlags) (*MR, error) {
	mr := &MR{pd: pd, length: everything, access: access | AccessOnDemand}
	err := pd.makeMR(mr, func(access AccessFlags) (cMR, error) {
		return cRegMR(pd.ptr, 0, everything, uint32(access))
	})
	if err != nil {
		return nil, err
	}
	return mr, nil
}

// checkODP refuses a registration on demand that the device cannot do: drivers answer it with EINVAL as a rule.
func (c *Context) checkODP(length uint64) error {
	need, what := ODPSupport, "on-demand paging"
	if length == everything {
		need, what = ODPSupport|ODPImplicit, "on-demand paging of the whole address space"
	}
	extended, err := c.QueryExtended()
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	if extended.ODP&need != need {
		return fmt.Errorf("verbs: register memory: %s has no %s: %w", c.name, what, errors.ErrUnsupported)
	}
	return nil
}
