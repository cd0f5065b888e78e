// Command benchguard compares the output of benchmarks with recorded figures:
//
//	go test -run '^$' -bench 'Calibration|FirstTable$' ./test/bench | go run ./tools/benchguard           fail if a figure is worse
//	go test -run '^$' -bench 'Calibration|FirstTable$' ./test/bench | go run ./tools/benchguard -record   record the figures of this run
//
// Memory is compared directly. Times depend on the machine and its load, so they are compared as multiples of the time of
// BenchmarkCalibration in the same run. "make bench-guard" runs all recorded benchmarks.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
)

// recorded is the file with the recorded figures.
const recorded = "test/bench/recorded.txt"

const header = `# What the benchmarks of the table in docs/performance.md may cost, by "make bench-guard RECORD=-record".
# MiB are absolute. Times are multiples of BenchmarkCalibration in the same run.
`

// The fraction by which a figure may be worse than the recorded one. Times vary more than memory.
const (
	memoryTolerance = 0.15
	timeTolerance   = 0.5
)

func main() {
	record := flag.Bool("record", false, "write the figures to "+recorded+", and compare nothing")
	flag.Parse()
	if err := run(os.Stdin, os.Stdout, recorded, *record); err != nil {
		fmt.Fprintln(os.Stderr, "benchguard:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer, path string, record bool) error {
	figures, err := read(in)
	if err != nil {
		return err
	}
	if record {
		return os.WriteFile(path, []byte(write(figures)), 0o644)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	limits, err := parse(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return compare(out, limits, figures)
}

// figure is a metric of a benchmark: "BenchmarkFirstTable peak-MiB".
type figure string

func (f figure) isMemory() bool { return strings.HasSuffix(string(f), "MiB") }

// read reads the output of benchmarks. Of several runs of one benchmark the best counts. Times are divided by that of the
// calibration.
func read(in io.Reader) (map[figure]float64, error) {
	figures := make(map[figure]float64)
	calibration := 0.0
	for lines := bufio.NewScanner(in); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name := fields[0]
		if dash := strings.LastIndexByte(name, '-'); dash > 0 {
			name = name[:dash] // the number of processors
		}
		for i := 2; i+1 < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", lines.Text(), err)
			}
			f := figure(name + " " + fields[i+1])
			switch {
			case name == "BenchmarkCalibration" && fields[i+1] == "cpu-ms/op":
				if calibration == 0 || value < calibration {
					calibration = value
				}
				continue
			case !counts(fields[i+1]):
				continue
			}
			if before, known := figures[f]; !known || value < before {
				figures[f] = value
			}
		}
	}
	if calibration == 0 {
		return nil, errors.New("no BenchmarkCalibration in this run")
	}
	for f := range figures {
		if !f.isMemory() {
			figures[f] /= calibration
		}
	}
	return figures, nil
}

// counts reports whether a metric is compared.
func counts(unit string) bool {
	return slices.Contains([]string{"peak-MiB", "cpu-ms/op", "first-answer-ms/op"}, unit)
}

func write(figures map[figure]float64) string {
	var b strings.Builder
	b.WriteString(header)
	for _, f := range slices.Sorted(maps.Keys(figures)) {
		fmt.Fprintf(&b, "%s %.3g\n", f, figures[f])
	}
	return b.String()
}

func parse(text string) (map[figure]float64, error) {
	limits := make(map[figure]float64)
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) != 3 {
			return nil, fmt.Errorf("line %d: want benchmark, metric and figure, have %q", i+1, line)
		}
		value, err := strconv.ParseFloat(fields[2], 64)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		limits[figure(fields[0]+" "+fields[1])] = value
	}
	return limits, nil
}

// compare prints a line for each recorded figure. The error tells how many are worse, or were not measured.
func compare(out io.Writer, limits, figures map[figure]float64) error {
	worse := 0
	for _, f := range slices.Sorted(maps.Keys(limits)) {
		now, measured := figures[f]
		tolerance := timeTolerance
		if f.isMemory() {
			tolerance = memoryTolerance
		}
		word := "ok"
		switch {
		case !measured:
			word, worse = "NOT MEASURED", worse+1
		case now > limits[f]*(1+tolerance):
			word, worse = "WORSE", worse+1
		}
		fmt.Fprintf(out, "%-60s recorded %8.3g, now %8.3g  %s\n", f, limits[f], now, word)
	}
	if worse > 0 {
		return fmt.Errorf("%d of %d figures are worse than recorded, or were not measured", worse, len(limits))
	}
	return nil
}
