package upgrade_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// TestClientsOfThisVersionUnderstandTheFirstServer: sidecars and a relay follow a server of the first version, and
// apply its deltas.
func TestClientsOfThisVersionUnderstandTheFirstServer(t *testing.T) {
	t.Parallel()
	if *record {
		recordExchanges(t)
	}
	server, url := newFirstServer(t)
	clients := []*process{
		current.sidecar(t, t.TempDir(), "poller", url, "--transport=poll"),
		current.sidecar(t, t.TempDir(), "follower", url, "--transport=stream"),
		current.server(t, t.TempDir(), "--upstream="+url),
	}
	for _, c := range clients {
		c.awaitTable("the first table", server.table(1))
	}
	server.advance()
	for _, c := range clients {
		c.awaitTable("the second table", secondTable(t, server.all))
		c.wantDeltas()
	}
	for command, want := range map[string]string{
		"status": "healthy", "clients": "4 clients: 4 current", "problems": "no problems", "held": "nothing is held",
	} {
		if out, code := current.ask(t, command, url); code != 0 || !strings.Contains(out, want) {
			t.Errorf("routesrv %s: exit status %d, want %q in\n%s", command, code, want, out)
		}
	}
}

// secondTable applies the delta that the first version sent to its first table.
func secondTable(t *testing.T, all []*exchange) string {
	t.Helper()
	var base string
	for _, x := range all {
		switch {
		case x.phase == 1 && x.status == http.StatusOK && x.request.URL.Path == "/routes":
			base = string(x.answer)
		case x.status == http.StatusIMUsed:
			return apply(t, base, x.answer)
		}
	}
	t.Fatal("no delta")
	return ""
}

// apply applies a delta the way docs/protocol.md tells authors of clients to do it.
func apply(t *testing.T, base string, delta []byte) string {
	t.Helper()
	var d struct {
		Base, Target     string
		Count            int
		Deletes, Upserts []string
	}
	if err := json.Unmarshal(delta, &d); err != nil {
		t.Fatalf("%v: %s", err, delta)
	}
	if got := digestOf(base); got != d.Base {
		t.Fatalf("the delta is for %s, not for %s", d.Base, got)
	}
	lines := map[string]string{}
	for line := range strings.SplitSeq(base, "\n") {
		id, _, _ := strings.Cut(line, ":")
		lines[id] = line
	}
	for _, id := range d.Deletes {
		delete(lines, id)
	}
	for _, line := range d.Upserts {
		id, _, _ := strings.Cut(line, ":")
		lines[id] = line
	}
	var ids, sorted []string
	for id := range lines {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		sorted = append(sorted, lines[id])
	}
	result := strings.Join(sorted, "\n")
	if got := digestOf(result); got != d.Target || len(sorted) != d.Count {
		t.Fatalf("the result is %s with %d routes, want %s with %d", got, len(sorted), d.Target, d.Count)
	}
	return result
}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// TestFirstClientsUnderstandServersOfThisVersion replays the requests of sidecars and relays of the first version to
// a relay of this version, which has the same tables, and expects the same answers.
func TestFirstClientsUnderstandServersOfThisVersion(t *testing.T) {
	t.Parallel()
	server, url := newFirstServer(t)
	relay := current.server(t, t.TempDir(), "--upstream="+url)
	relay.awaitTable("the first table", server.table(1))
	var streams []*openStream
	for _, x := range server.all {
		if x.stream() {
			streams = append(streams, relay.follow(x))
		}
	}
	if len(streams) != 2 { // with and without a table
		t.Fatalf("%d streams", len(streams))
	}
	relay.wantSameAnswers(server.all, 1)
	server.advance()
	second := secondTable(t, server.all)
	relay.awaitTable("the second table", second)
	relay.wantSameAnswers(server.all, 2)
	for _, s := range streams {
		s.wantTable(server.table(1), second)
	}
	// The replayed reports have arrived: the commands show the sidecars and the relay of the first version.
	out, _ := current.ask(t, "clients", relay.support)
	for _, name := range []string{"poller", "follower", "machine"} {
		if !strings.Contains(out, name) {
			t.Errorf("%s is not among the clients:\n%s", name, out)
		}
	}
}

// wantSameAnswers replays the requests for tables and the reports of one phase, and compares the answers.
func (p *process) wantSameAnswers(all []*exchange, phase int) {
	p.t.Helper()
	sent := 0
	for _, x := range all {
		if x.phase != phase || x.stream() || x.client == "command" {
			continue
		}
		sent++
		resp, body := p.send(p.main, x)
		if resp.StatusCode != x.status {
			p.t.Errorf("phase %d: %s: status %d, the first version answered %d: %s", phase, x.key(), resp.StatusCode, x.status, body)
			continue
		}
		if x.request.Method == http.MethodPost {
			continue
		}
		// Encodings differ, because the answers of the first version were stored as text.
		if got, want := holds(http.Header{"If-None-Match": {resp.Header.Get("Etag")}}), holds(http.Header{"If-None-Match": {x.header.Get("Etag")}}); got != want {
			p.t.Errorf("phase %d: %s: ETag of %s, was of %s", phase, x.key(), got, want)
		}
		for name := range x.header {
			if resp.Header.Get(name) == "" {
				p.t.Errorf("phase %d: %s: no header %s, which the first version sent: %q", phase, x.key(), name, resp.Header)
			}
		}
		switch x.status {
		case http.StatusOK:
			if string(body) != string(x.answer) {
				p.t.Errorf("phase %d: %s: another table:\n%s", phase, x.key(), body)
			}
		case http.StatusIMUsed:
			if resp.Header.Get("Delta-Base") == "" || resp.Header.Get("Im") != x.header.Get("Im") {
				p.t.Errorf("phase %d: %s: header %v", phase, x.key(), resp.Header)
			}
			apply(p.t, tableOf(p.t, all), body)
		}
	}
	if sent < 4 {
		p.t.Errorf("phase %d: only %d requests", phase, sent)
	}
}

// tableOf is the first table.
func tableOf(t *testing.T, all []*exchange) string {
	t.Helper()
	return (&firstServer{t: t, all: all}).table(1)
}

// send replays a request unchanged, except that it asks for an unencoded answer.
func (p *process) send(to string, x *exchange) (*http.Response, []byte) {
	p.t.Helper()
	resp, err := request(p.t.Context(), to, x)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp, body
}

func request(ctx context.Context, to string, x *exchange) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, x.request.Method, to+x.request.URL.RequestURI(), bytes.NewReader(x.body))
	if err != nil {
		return nil, err
	}
	r.Header = x.request.Header.Clone()
	r.Header.Set("Accept-Encoding", "identity")
	return http.DefaultTransport.RoundTrip(r)
}

// openStream is a stream requested as a client of the first version did.
type openStream struct {
	t      *testing.T
	tables chan string // each event that changes the table: its name, a line feed, its data
}

// follow opens a stream and collects its events, as docs/protocol.md describes them.
func (p *process) follow(x *exchange) *openStream {
	p.t.Helper()
	ctx, cancel := context.WithCancel(p.t.Context())
	resp, err := request(ctx, p.main, x)
	if err != nil {
		cancel()
		p.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != x.header.Get("Content-Type") {
		p.t.Errorf("stream: status %d, %v", resp.StatusCode, resp.Header)
	}
	s := &openStream{t: p.t, tables: make(chan string, 16)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer resp.Body.Close()
		var event string
		var data []string
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			switch line := lines.Text(); {
			case strings.HasPrefix(line, "event: "):
				event = strings.TrimPrefix(line, "event: ")
			case strings.HasPrefix(line, "data: "):
				data = append(data, strings.TrimPrefix(line, "data: "))
			case line == "":
				if event == "table" || event == "delta" {
					s.tables <- event + "\n" + strings.Join(data, "\n")
				}
				event, data = "", nil
			}
		}
	}()
	p.t.Cleanup(func() { cancel(); <-done })
	return s
}

// wantTable checks that events lead from the first table to the second.
func (s *openStream) wantTable(first, second string) {
	s.t.Helper()
	text := first
	until(s.t, "the events of the second table", func() error {
		select {
		case event := <-s.tables:
			kind, data, _ := strings.Cut(event, "\n")
			if kind == "table" {
				text = data
			} else {
				text = apply(s.t, text, []byte(data))
			}
		default:
		}
		if text != second {
			return errors.New("not yet")
		}
		return nil
	})
}

// TestFirstCommandsUnderstandServersOfThisVersion: answers still have every field that they had, because the commands
// of the first version and scripts rely on them.
func TestFirstCommandsUnderstandServersOfThisVersion(t *testing.T) {
	t.Parallel()
	all := exchanges(t)
	manifests := shop(t)
	root := current.server(t, t.TempDir(), "--manifests="+manifests)
	root.awaitRoute("kube_rg__shop__cart__")
	for _, client := range []*process{
		current.server(t, t.TempDir(), "--upstream="+root.main),
		current.sidecar(t, t.TempDir(), "poller", root.main, "--transport=poll"),
		current.sidecar(t, t.TempDir(), "follower", root.main, "--transport=stream"),
	} {
		client.awaitRoute("kube_rg__shop__cart__")
	}
	compared := 0
	for _, x := range all {
		if x.client != "command" || x.phase != 1 {
			continue
		}
		compared++
		until(t, "the fields of "+x.key(), func() error { // clients report after a while
			resp, body := root.send(root.support, x)
			if resp.StatusCode != x.status {
				return fmt.Errorf("status %d, was %d: %s", resp.StatusCode, x.status, body)
			}
			if x.status != http.StatusOK {
				return nil
			}
			var was, is any
			if err := errors.Join(json.Unmarshal(x.answer, &was), json.Unmarshal(body, &is)); err != nil {
				return err
			}
			if missing := missingFields("", was, is); len(missing) > 0 {
				return fmt.Errorf("fields %q of the first version are missing in\n%s", missing, body)
			}
			return nil
		})
	}
	if compared < 4 {
		t.Errorf("only %d answers compared", compared)
	}
}

// missingFields lists the fields that an answer has lost, or that now hold another kind of value. All objects of a
// list count as one.
func missingFields(path string, was, is any) (missing []string) {
	switch was := was.(type) {
	case map[string]any:
		is, ok := is.(map[string]any)
		if !ok {
			return []string{path}
		}
		for name, value := range was {
			now, ok := is[name]
			if !ok {
				missing = append(missing, path+"."+name)
				continue
			}
			missing = append(missing, missingFields(path+"."+name, value, now)...)
		}
	case []any:
		is, ok := is.([]any)
		if !ok {
			return []string{path}
		}
		for _, value := range was {
			if !slices.ContainsFunc(is, func(now any) bool { return len(missingFields(path, value, now)) == 0 }) {
				missing = append(missing, path+"[]")
			}
		}
	default:
		if fmt.Sprintf("%T", was) != fmt.Sprintf("%T", is) {
			return []string{path}
		}
	}
	return missing
}
