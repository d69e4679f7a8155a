package main

import (
	"fmt"
	"net"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weftrdma/weft/cmd/weft/internal/doctor"
)

func (a *app) doctorCommand() *cobra.Command {
	var rail, listen string
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Find out why files do not move here, and what to do",
		Long: `Look at everything that a rail needs on this machine, and say of each thing that is
broken what to do: the libraries, kernel modules, devices, permissions, the state, GID
and MTU of each port, and the limit on locked memory. With --rail look at what that
rail needs alone; without, at what "weft send" and "weft recv" choose from, where what
only RDMA lacks is a warning if sockets can carry the files. With --listen look also
at the address that "weft recv" is to listen on.

With --json the result is one object: command, status, error, findings (check, level,
text, fix) and broken, how many of them are of the level broken.

Exit status: 0 when nothing is broken; 1 when something is.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return a.doctor(doctor.ThisSystem(), rail, listen) },
	}
	c.Flags().StringVar(&rail, "rail", "auto", "what is to work: verbs, verbs:DEVICE, fabric:PROVIDER or auto")
	c.Flags().StringVar(&listen, "listen", "", "the TCP `address` that is to be listened on")
	return c
}

// doctorResult is what --json prints.
type doctorResult struct {
	outcome
	Findings []doctor.Finding `json:"findings"`
	Broken   int              `json:"broken"`
}

func newDoctorResult(o outcome, findings ...doctor.Finding) doctorResult {
	return doctorResult{o, append([]doctor.Finding{}, findings...), doctor.Count(findings, doctor.Broken)}
}

func (a *app) doctor(system doctor.System, rail, listen string) error {
	findings, err := examine(system, rail)
	if err != nil {
		return err
	}
	if listen != "" {
		l, err := net.Listen("tcp", listen)
		if err == nil {
			_ = l.Close()
		}
		findings = append(findings, doctor.Listening(listen, err))
	}
	r := newDoctorResult(outcome{Command: "doctor"}, findings...)
	if r.Broken > 0 {
		r.Status = statusFailed
	}
	if a.json {
		if err := a.print(r); err != nil {
			return err
		}
	} else {
		a.printFindings(r)
	}
	if r.Broken > 0 {
		return errReported
	}
	return nil
}

func (a *app) printFindings(r doctorResult) {
	for _, f := range r.Findings {
		fmt.Fprintf(a.stdout, "%-8s %s: %s\n", f.Level, f.Check, f.Text)
		if f.Fix != "" {
			fmt.Fprintf(a.stdout, "         fix: %s\n", f.Fix)
		}
	}
	fmt.Fprintf(a.stdout, "%d broken, %d warnings\n", r.Broken, doctor.Count(r.Findings, doctor.Warning))
}

// examine looks at what a rail needs.
func examine(system doctor.System, rail string) ([]doctor.Finding, error) {
	if err := checkRail(rail); err != nil {
		return nil, err
	}
	switch kind, provider, _ := strings.Cut(rail, ":"); kind {
	case "verbs":
		return system.Examine(), nil
	case "fabric":
		return system.ExamineFabric(provider), nil
	}
	return system.ExamineAny(), nil
}
