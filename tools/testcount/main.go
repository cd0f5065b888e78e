// Command testcount summarises the output of go test -json for people: a line for each package, the output of tests that failed or
// never ended, the tests that were skipped with their reason, the slowest tests, and the count as the last line. It fails if a test
// failed or none ran, and where CI is true if one was skipped.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// event is one line of the output of go test -json.
type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64
}

type key struct{ pkg, test string }

// counter counts the events.
type counter struct {
	out                     io.Writer
	passed, failed, skipped int
	output                  map[key][]string
	broken                  bool // a package failed without a failing test, for example because it does not build
	slow                    []event
}

// The threshold for slow tests, and how many are shown at the end: the gate has a time limit, and somebody must see what uses it
// up.
const (
	slowTest  = 20 // seconds
	slowShown = 15
)

func main() {
	c := &counter{out: os.Stdout, output: make(map[key][]string)}
	if err := c.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "testcount:", err)
		os.Exit(2)
	}
	c.printSlow()
	fmt.Printf("%d passed, %d failed, %d skipped\n", c.passed, c.failed, c.skipped)
	if c.failed > 0 || c.broken || c.passed == 0 {
		os.Exit(1)
	}
	if c.skipped > 0 && os.Getenv("CI") == "true" {
		fmt.Fprintln(os.Stderr, "testcount: where CI is true no test may be skipped: install what the lines with SKIP name")
		os.Exit(1)
	}
}

func (c *counter) read(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			fmt.Fprintln(c.out, lines.Text()) // of the tool itself
			continue
		}
		c.add(e)
	}
	return lines.Err()
}

func (c *counter) add(e event) {
	k := key{e.Package, e.Test}
	switch {
	case e.Action == "output" || e.Action == "build-output":
		if e.ImportPath != "" {
			fmt.Fprint(c.out, e.Output)
			return
		}
		c.output[k] = append(c.output[k], e.Output)
	case e.Test != "":
		c.test(e, k)
	case e.Action == "pass", e.Action == "fail", e.Action == "skip":
		c.pkg(e, k)
	}
}

// printSlow prints the slowest tests, without subtests.
func (c *counter) printSlow() {
	slices.SortFunc(c.slow, func(a, b event) int { return cmp.Compare(b.Elapsed, a.Elapsed) })
	for _, e := range c.slow[:min(slowShown, len(c.slow))] {
		fmt.Fprintf(c.out, "slow %s %s %.0fs\n", e.Package, e.Test, e.Elapsed)
	}
}

func (c *counter) test(e event, k key) {
	if e.Elapsed >= slowTest && !strings.Contains(e.Test, "/") {
		c.slow = append(c.slow, e)
	}
	switch e.Action {
	case "pass":
		c.passed++
	case "skip":
		c.skipped++
		fmt.Fprintf(c.out, "SKIP %s %s\n%s", e.Package, e.Test, strings.Join(c.output[k], ""))
	case "fail":
		c.failed++
		fmt.Fprintf(c.out, "FAIL %s %s\n%s", e.Package, e.Test, strings.Join(c.output[k], ""))
	default:
		return
	}
	delete(c.output, k)
}

func (c *counter) pkg(e event, k key) {
	if e.Action == "skip" {
		return // no test files
	}
	fmt.Fprintf(c.out, "%-4s %s %.1fs\n", e.Action, e.Package, e.Elapsed)
	if e.Action == "fail" {
		c.broken = true
		fmt.Fprint(c.out, strings.Join(c.output[k], ""))
		c.printUnfinished(e.Package)
	}
	delete(c.output, k)
}

// printUnfinished prints the output of those tests of a package that began and did not end. A fatal error of the runtime, a timeout
// and a call of os.Exit end a process within a test, and the reason is in the output of one of these.
func (c *counter) printUnfinished(pkg string) {
	var tests []string
	for k := range c.output {
		if k.pkg == pkg && k.test != "" {
			tests = append(tests, k.test)
		}
	}
	slices.Sort(tests)
	for _, test := range tests {
		k := key{pkg, test}
		fmt.Fprintf(c.out, "NOT ENDED %s %s\n%s", pkg, test, strings.Join(c.output[k], ""))
		delete(c.output, k)
	}
}
