package robustness

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/routesrv/routesrv/test/robustness/history"
)

// sample measures the resource usage of the process. ok is false if it is not running.
func (p *Process) sample(ctx context.Context, client *http.Client) (history.Sample, bool) {
	pid := p.PID()
	if pid == 0 {
		return history.Sample{}, false
	}
	s := history.Sample{At: p.rec.Now(), Member: p.Name, Disk: p.disk()}
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return s, false
	}
	if f := strings.Fields(string(statm)); len(f) > 1 {
		pages, _ := strconv.ParseUint(f[1], 10, 64)
		s.RSS = pages * uint64(os.Getpagesize())
	}
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return s, false
	}
	s.Descriptors = len(fds)
	p.metrics(ctx, client, &s)
	return s, true
}

// metrics adds values from the process's metrics, if available.
func (p *Process) metrics(ctx context.Context, client *http.Client, s *history.Sample) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Support+"/metrics", nil)
	if err != nil {
		return
	}
	resp, err := client.Do(r)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		series, value, ok := strings.Cut(lines.Text(), " ")
		if !ok || series == "#" {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue
		}
		name, labels, _ := strings.Cut(series, "{")
		switch name {
		case "go_goroutines":
			s.Goroutines = int(n)
		case "routesrv_guard_held", "dataplane_guard_held":
			s.Held = s.Held || n > 0
		case "routesrv_problems":
			if n > 0 {
				if s.Problems == nil {
					s.Problems = make(map[string]int)
				}
				s.Problems[label(labels, "reason")] += int(n)
			}
		case "routesrv_source_read_errors_total":
			if n > 0 {
				if s.Failed == nil {
					s.Failed = make(map[string]int)
				}
				s.Failed[label(labels, "reason")] += int(n)
			}
		}
	}
}

// label returns the value of a label in the text of a series.
func label(labels, name string) string {
	_, rest, ok := strings.Cut(labels, name+`="`)
	if !ok {
		return ""
	}
	value, _, _ := strings.Cut(rest, `"`)
	return value
}
