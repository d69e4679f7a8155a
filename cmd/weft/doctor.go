package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weftrdma/weft/cmd/weft/internal/doctor"
)

func (a *app) doctorCommand() *cobra.Command {
	var rail string
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Find out why RDMA does not work here, and what to do",
		Long: `Look at everything that RDMA needs on this machine: the library, kernel modules,
devices, permissions, the state, GID and MTU of each port, and the limit on locked
memory. Each finding comes with its fix. With --rail fabric:PROVIDER look at what
that rail needs instead: libfabric, and the provider. With --rail auto
look at both, which is where auto chooses from.

With --json the result is one object: findings (check, level, text, fix) and
broken, how many of them are of the level broken.

Exit status: 0 when nothing is broken; 1 when something is.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return a.doctor(doctor.ThisSystem(), rail) },
	}
	c.Flags().StringVar(&rail, "rail", "verbs", "what is to work: verbs, fabric:PROVIDER or auto")
	return c
}

// doctorResult is what --json prints.
type doctorResult struct {
	Findings []doctor.Finding `json:"findings"`
	Broken   int              `json:"broken"`
}

func (a *app) doctor(system doctor.System, rail string) error {
	findings, err := examine(system, rail)
	if err != nil {
		return err
	}
	broken := doctor.Count(findings, doctor.Broken)
	if a.json {
		if err := a.print(doctorResult{Findings: findings, Broken: broken}); err != nil {
			return err
		}
	} else {
		for _, f := range findings {
			fmt.Fprintf(a.stdout, "%-8s %s: %s\n", f.Level, f.Check, f.Text)
			if f.Fix != "" {
				fmt.Fprintf(a.stdout, "         fix: %s\n", f.Fix)
			}
		}
		fmt.Fprintf(a.stdout, "%d broken, %d warnings\n", broken, doctor.Count(findings, doctor.Warning))
	}
	if broken > 0 {
		return errReported
	}
	return nil
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
	return append(system.Examine(), system.ExamineFabric("tcp")...), nil
}
