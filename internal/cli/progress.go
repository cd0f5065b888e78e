package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/routesrv/routesrv/shadowdiff"
)

// progress shows on a terminal line how many clusters have answered, and which have not.
type progress struct {
	out io.Writer // nil if the output is not a terminal

	mu    sync.Mutex
	names []string
	open  []bool
	left  int
}

// progressWidth limits the line, so that it fits a narrow terminal.
const progressWidth = 78

func newProgress(std Stdio, clusters []Cluster) *progress {
	p := &progress{left: len(clusters)}
	if !std.ErrTerminal || len(clusters) < 2 {
		return p
	}
	p.out = std.Err
	for _, c := range clusters {
		p.names, p.open = append(p.names, c.Name), append(p.open, true)
	}
	p.show()
	return p
}

// done reports that a cluster has answered, or that its time is over.
func (p *progress) done(i int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left--
	if p.out != nil {
		p.open[i] = false
		p.show()
	}
}

func (p *progress) show() {
	var waiting []string
	for i, open := range p.open {
		if open {
			waiting = append(waiting, shadowdiff.Printable(p.names[i]))
		}
	}
	line := fmt.Sprintf("%d of %d clusters", len(p.names)-p.left, len(p.names))
	if len(waiting) > 0 {
		line += ", waiting for " + strings.Join(waiting, ", ")
	}
	if r := []rune(line); len(r) > progressWidth {
		line = string(r[:progressWidth-1]) + "…"
	}
	fmt.Fprint(p.out, "\r\x1b[K"+line)
}

// end removes the line from the terminal.
func (p *progress) end() {
	if p.out != nil {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
