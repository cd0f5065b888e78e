package cli

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/routesrv/routesrv/internal/config"
)

// Socket is the place of the process in the same pod: its control socket, which answers what the support listener answers, and
// accepts held tables.
type Socket struct {
	// Folder is the usual state folder of the process.
	Folder string
	// Dial connects to the socket of a state folder.
	Dial func(ctx context.Context, folder string) (net.Conn, error)

	folder    string
	transport *http.Transport
}

// Define implements [Places].
func (s *Socket) Define(flags *config.Parser) {
	flags.Ask("state-dir", config.Text("PATH", &s.folder, s.Folder))
}

// Args implements [Places].
func (s *Socket) Args() string { return "" }

// Clusters implements [Places].
func (s *Socket) Clusters(args []string) ([]Cluster, []string, error) {
	for _, a := range args {
		if u, err := url.Parse(a); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
			return nil, nil, fmt.Errorf("%q: this command asks the process in its own pod, not a URL: use kubectl routesrv, or kubectl exec POD -- and the command without the URL", a)
		}
	}
	name, err := os.Hostname() // of the pod
	if err != nil {
		name = "this process"
	}
	s.transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return s.Dial(ctx, s.folder) }}
	l := &Listener{URL: "http://localhost", Transport: s.transport}
	r := Replica{Name: name, Support: l, Post: func(ctx context.Context, path string, form url.Values) ([]byte, error) {
		p, err := l.do(ctx, http.MethodPost, path, nil, "application/json", strings.NewReader(form.Encode()))
		switch {
		case err != nil:
			return nil, err
		case p.status != http.StatusOK:
			return nil, p.refusal(path)
		}
		return p.body, nil
	}}
	return []Cluster{{Find: func(context.Context) ([]Replica, error) { return []Replica{r}, nil }}}, args, nil
}

// Close implements [Places].
func (s *Socket) Close() {
	if s.transport != nil {
		s.transport.CloseIdleConnections()
	}
}

// PostCommand returns the command that sends a command to the control socket in a pod.
func PostCommand(program, path string, form url.Values) []string {
	return []string{program, "post", path, form.Encode()}
}

// postJob sends a command to the process in the same pod, for kubectl routesrv.
type postJob struct{}

func (postJob) define(*config.Parser) {}

func (postJob) run(ctx context.Context, s *session) (int, error) {
	form, err := url.ParseQuery(s.args[1])
	if err != nil {
		return Trouble, usagef("%q is no form: %v", s.args[1], err)
	}
	r := ask(ctx, s, s.clusters, func(ctx context.Context, r Replica) ([]byte, error) { return r.Post(ctx, s.args[0], form) })[0]
	if len(r.answered()) == 0 {
		writeLines(s.std.Err, r.missing())
		return Trouble, nil
	}
	_, err = s.std.Out.Write(r.answered()[0].value)
	return Healthy, err
}

type getJob struct{}

func (getJob) define(*config.Parser) {}

func (getJob) run(ctx context.Context, s *session) (int, error) {
	path, query, _ := strings.Cut(s.args[0], "?")
	if !strings.HasPrefix(path, "/") {
		return Trouble, usagef("%q is not a path such as /status", s.args[0])
	}
	accept := "text/plain"
	if s.output == "json" {
		accept = "application/json"
	}
	r := ask(ctx, s, s.clusters, func(ctx context.Context, r Replica) (*page, error) {
		return r.Support.do(ctx, http.MethodGet, strings.TrimSuffix(path+"?"+query, "?"), nil, accept, nil)
	})[0]
	answers := r.answered()
	if len(answers) == 0 {
		writeLines(s.std.Err, r.missing())
		return Trouble, nil
	}
	first := answers[0].value // the replicas answer the same
	if err := writeText(s.std.Out, first.body); err != nil {
		return Trouble, err
	}
	if first.status/100 == 2 {
		return Healthy, nil
	}
	writeLines(s.std.Err, []string{path + ": " + first.text})
	return Unhealthy, nil
}
