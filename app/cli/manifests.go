package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/options"
	"github.com/routesrv/routesrv/app/program"
	"github.com/routesrv/routesrv/app/query"
	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/explain"
	"github.com/routesrv/routesrv/explain/takeover"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/match"
	"github.com/routesrv/routesrv/shadowdiff"
	"github.com/routesrv/routesrv/source/manifests"
	"github.com/routesrv/routesrv/source/tables"
	"github.com/routesrv/routesrv/table"
)

// compiler compiles manifests with the flags of the server. Both tables of a comparison may use it concurrently.
type compiler struct {
	s       *session
	mu      sync.Mutex // one compilation at a time
	results []*compile.Result
}

// tables returns a reader of the tables that are arguments, and the compiler that it uses for manifests.
func (s *session) tables() (*tables.Reader, *compiler, error) {
	if s.server.Source.Kubernetes || len(s.server.Source.Manifests) > 0 {
		fmt.Fprintf(s.std.Err, "%s: warning: -kubernetes and --manifests have no effect: the arguments are the tables\n", s.program.Name)
	}
	c := &compiler{s: s}
	transport, err := query.Transport(s.tls)
	if err != nil {
		return nil, nil, err
	}
	return tables.New(tables.Config{Compile: c.compile, Stdin: s.std.In, Timeout: s.timeout, Transport: transport}), c, nil
}

// unread describes the parts of a table that are not routes.
func unread(t *tables.Table) (notes []string) {
	for _, part := range t.LeftOut {
		notes = append(notes, fmt.Sprintf("route %s: %v", part.ID, part.Err))
	}
	if more := t.Unread - len(t.LeftOut); more > 0 {
		notes = append(notes, fmt.Sprintf("%d more routes", more))
	}
	return notes
}

// load reads the table of an argument.
func (s *session) load(ctx context.Context, place string) (*tables.Table, *compiler, error) {
	reader, c, err := s.tables()
	if err != nil {
		return nil, nil, err
	}
	defer reader.Close()
	t, err := reader.Load(ctx, place)
	if err != nil {
		return nil, nil, err
	}
	for _, note := range unread(t) {
		writeLines(s.std.Err, []string{fmt.Sprintf("%s: %s: left out: %s", s.program.Name, t.Name, note)})
	}
	return t, c, nil
}

// compile compiles a path, and prints its problems.
func (c *compiler) compile(ctx context.Context, path string) (table.List, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	result, err := c.s.compile(ctx, path)
	if err != nil {
		return table.List{}, err
	}
	c.results = append(c.results, result)
	for _, problem := range result.Problems {
		writeLines(c.s.std.Err, []string{path + ": " + problem.Line()})
	}
	return result.Routes, nil
}

// compile compiles a file or folder with the flags of the server.
func (s *session) compile(ctx context.Context, path string) (*compile.Result, error) {
	server := s.server
	server.Source.Kubernetes, server.Source.Manifests = false, []string{path}
	return Compile(ctx, server, s.std)
}

// owners finds the objects of routes among the compiled manifests; nil if there are none, where only tables are known.
func (c *compiler) owners() shadowdiff.OwnerFunc {
	if len(c.results) == 0 {
		return nil
	}
	var snapshots []*kube.Snapshot
	for _, result := range c.results {
		snapshots = append(snapshots, result.Snapshot)
	}
	return explain.OwnerFunc(func(ref kube.Ref) (compile.Inspection, bool) {
		for _, result := range c.results {
			if in, ok := result.Inspect(ref); ok {
				return in, true
			}
		}
		return compile.Inspection{}, false
	}, snapshots...)
}

// Compile reads the source of a route server once and compiles it.
func Compile(ctx context.Context, server options.RouteServer, std program.Stdio) (*compile.Result, error) {
	server.Source.Watch = false // a watch is useless for a single read
	compiler, err := compile.New(server.Server.Compile)
	if err != nil {
		return nil, err
	}
	source, _, err := program.NewSource(server.Source, std.In, program.NewLogger(server.Log, std.Err), prometheus.NewRegistry())
	if err != nil {
		return nil, err
	}
	snapshot, err := source.Read(ctx, kube.ReadOptions{})
	if err != nil {
		return nil, err
	}
	return compiler.Compile(snapshot), nil
}

// WithoutPods reports whether a snapshot has no endpoints at all; manifests rarely have them.
func WithoutPods(s *kube.Snapshot) bool { return len(s.Endpoints)+len(s.EndpointSlices) == 0 }

// explainManifests compiles a file or folder. If the manifests have no endpoints at all, the explanation does not mention pods.
func (s *session) explainManifests(ctx context.Context, path string, query explain.Query) (*explain.Explanation, error) {
	server := &s.server
	result, err := s.compile(ctx, path)
	if err != nil {
		return nil, err
	}
	o, proxy := server.Server.Compile, match.Options{ValidateQuery: true}
	server.ProxyOptions(&proxy)
	return explain.Explain(explain.Input{
		Result: result, Namespace: server.Source.Namespace, Selectors: server.Source.Selectors, Proxy: proxy,
		Classes:     map[kube.Kind]string{kube.KindIngress: o.IngressClass, kube.KindRouteGroup: o.RouteGroupClass},
		WithoutPods: WithoutPods(result.Snapshot),
	}, query), nil
}

// Against asks the support listener of a route server which requests of others the Ingresses and RouteGroups of manifests would take, and
// prints the answer. It returns Healthy if they take nothing, Unhealthy if they do or may.
func Against(ctx context.Context, server string, paths []string, output string, std program.Stdio) (int, error) {
	body, err := routed(ctx, paths, std.In)
	if err != nil {
		return Trouble, err
	}
	ctx, cancel := context.WithTimeout(ctx, tableTimeout)
	defer cancel()
	const path = api.PathTakeovers
	listener := &Listener{URL: strings.TrimSuffix(strings.TrimSuffix(server, "/"), path)}
	answer, err := query.Post(ctx, listener, path, url.Values{"format": {"json"}}, bytes.NewReader(body))
	if err != nil {
		return Trouble, err
	}
	var report takeover.Report
	if err := json.Unmarshal(answer, &report); err != nil || report.Schema != takeover.Schema {
		return Trouble, fmt.Errorf("%s: this is not the support listener of a route server that reads a cluster", listener.URL)
	}
	write := map[string]func(io.Writer) error{"text": report.WriteText, "json": report.WriteJSON}[output]
	return verdict(!report.Found()), printing(write(std.Out))
}

// routed returns the Ingresses and RouteGroups of manifests, and what their routes depend on. Nothing else leaves this machine.
func routed(ctx context.Context, paths []string, stdin io.Reader) ([]byte, error) {
	source, err := manifests.New(manifests.Config{Paths: paths, Stdin: stdin})
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	found := false
	err = source.Objects(ctx, func(kind string, object []byte) error {
		switch kube.Kind(kind) {
		case kube.KindIngress, kube.KindRouteGroup:
			found = true
		case kube.KindService, kube.KindEndpoints, kube.KindEndpointSlice:
		default:
			return nil
		}
		b.Write(object)
		b.WriteString("\n---\n")
		return nil
	})
	if err == nil && !found {
		err = errors.New("the manifests have no Ingress and no RouteGroup")
	}
	return b.Bytes(), err
}
