package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/routesrv/routesrv/app/query"
)

// listed reads the file of clusters: NAME URL on each line.
func (s *session) listed() (all []Cluster, err error) {
	const most = 1 << 20
	in := s.std.In
	if s.urls != "-" {
		f, err := os.Open(s.urls)
		if err != nil {
			return nil, fmt.Errorf("--urls: %w", err)
		}
		defer f.Close()
		in = f
	}
	lines := bufio.NewScanner(io.LimitReader(in, most))
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if len(words) != 2 || !query.IsURL(words[1]) {
			return nil, fmt.Errorf("--urls: line %d: must be NAME URL", n)
		}
		r := Replica{Name: words[1], Support: &Listener{URL: strings.TrimSuffix(words[1], "/")}}
		all = append(all, Cluster{Name: words[0], Find: func(context.Context) ([]Replica, error) { return []Replica{r}, nil }})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("--urls: %w", err)
	}
	return all, nil
}
