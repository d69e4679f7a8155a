package main

import (
	"bufio"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
)

// rule says what becomes of the functions whose names match a pattern.
type rule struct {
	pattern, verdict, reason string
	used                     bool
}

// leastWords is how many words a reason has at least.
const leastWords = 3

// readRules reads lines of a pattern (path.Match), "absent" or "deprecated", and the reason.
func readRules(name string) ([]*rule, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var rules []*rule
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.SplitN(line, " ", 3)
		if len(fields) != 3 || fields[1] != "absent" && fields[1] != "deprecated" {
			return nil, fmt.Errorf("%s: %q is not PATTERN absent|deprecated REASON", name, line)
		}
		reason := strings.TrimSpace(fields[2])
		if len(strings.Fields(reason)) < leastWords { // the name of a feature is none
			return nil, fmt.Errorf("%s: %s: %q is no reason: say in a sentence why it is left out", name, fields[0], reason)
		}
		rules = append(rules, &rule{pattern: fields[0], verdict: fields[1], reason: reason})
	}
	return rules, lines.Err()
}

// cover decides about each function. The problems are what the list must not have.
func cover(functions []string, rules []*rule, b *binding) (list string, problems []string) {
	var out strings.Builder
	counts := map[string]int{}
	for _, function := range functions {
		verdict, detail := "bound", strings.Join(b.by[function], ", ")
		i := slices.IndexFunc(rules, func(r *rule) bool {
			ok, err := path.Match(r.pattern, function)
			return err == nil && ok
		})
		switch {
		case detail != "":
			for _, name := range b.by[function] {
				if !b.calls[name] {
					problems = append(problems, fmt.Sprintf("%s: no test calls %s", function, name))
				}
			}
		case i >= 0:
			verdict, detail = rules[i].verdict, rules[i].reason
			rules[i].used = true
		default:
			problems = append(problems, function+": neither bound nor listed with a reason")
			continue
		}
		counts[verdict]++
		fmt.Fprintf(&out, "%-10s  %-35s  %s\n", verdict, function, detail)
	}
	for _, r := range rules {
		if !r.used {
			problems = append(problems, fmt.Sprintf("rule %s (%s): no function needs it", r.pattern, r.reason))
		}
	}
	fmt.Fprintf(&out, "\n%d functions: %d bound, %d absent, %d deprecated\n",
		len(functions), counts["bound"], counts["absent"], counts["deprecated"])
	return out.String(), problems
}

var (
	comment   = regexp.MustCompile(`(?s)/\*.*?\*/|//[^\n]*`)
	directive = regexp.MustCompile(`(?m)^[ \t]*#(?:[^\n]*\\\n)*[^\n]*$`)
	attribute = regexp.MustCompile(`__attribute__\s*\(\(.*?\)\)|__attribute_const`)
)

// functions are the names that headers declare or define at file scope, sorted.
func functions(header, prefix string) []string {
	declared := called(prefix)
	text := attribute.ReplaceAllString(directive.ReplaceAllString(comment.ReplaceAllString(header, ""), ""), "")
	var names []string
	for _, statement := range strings.FieldsFunc(outermost(text), func(r rune) bool { return r == ';' || r == '}' }) {
		// A function's name is what its first parenthesis follows; a type's fields are within braces and gone.
		before, _, found := strings.Cut(statement, "(")
		if m := declared.FindStringSubmatch(before + "("); found && m != nil && strings.HasSuffix(before+"(", m[0]) {
			names = append(names, m[1])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// outermost is the text without what stands in braces, of which the last remains as a mark; extern "C" is no such brace.
func outermost(text string) string {
	text = strings.ReplaceAll(text, `extern "C" {`, "")
	var out strings.Builder
	depth := 0
	for _, r := range text {
		switch {
		case r == '{':
			depth++
		case r == '}' && depth > 0:
			if depth--; depth == 0 {
				out.WriteRune('}')
			}
		case depth == 0:
			out.WriteRune(r)
		}
	}
	return out.String()
}
