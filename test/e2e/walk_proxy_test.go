//go:build linux

package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/test/kubelet"
)

// walkProxy simulates the Skipper of a data plane, whose image is not available here: it sends requests like a Skipper with
// -routes-urls (section 14 of the specification of the protocol), and records the table that a Skipper would use. It polls every
// 50 ms instead of every 3 s, so that it sees what a proxy could see at the worst moment.
type walkProxy struct {
	url    string
	client *http.Client
	cancel context.CancelFunc
	done   chan struct{}

	etag string // owned by the loop

	mu       sync.Mutex
	table    string // the current table
	number   int    // the counter in the current table, -1 without one
	polls    int
	tables   int
	problems []string
}

// newWalkProxy starts the proxy of a pod as its manifest says. Its first download must succeed: otherwise a Skipper would exit.
func newWalkProxy(t *testing.T, pod *kubelet.Pod, container string) *walkProxy {
	t.Helper()
	spec := pod.Spec(container)
	if spec == nil {
		t.Fatalf("there is no container %s", container)
	}
	address, port := routesURL(t, spec)
	p := &walkProxy{url: address, done: make(chan struct{}), number: -1, client: &http.Client{
		Timeout: 3 * time.Second, // -source-poll-timeout
		Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return pod.DialLoopback(ctx, port) },
		},
	}}
	p.poll(t.Context())
	if p.problems != nil || p.table == "" {
		t.Fatalf("the first download, which ends a Skipper if it fails: %v", p.problems)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	go func() {
		defer close(p.done)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				p.poll(ctx)
			}
		}
	}()
	t.Cleanup(p.stop)
	return p
}

// routesURL returns the URL of the table in the arguments of a Skipper. As for all its flags, the last one counts.
func routesURL(t *testing.T, spec *corev1.Container) (address string, port uint16) {
	t.Helper()
	for _, a := range spec.Args {
		if v, ok := strings.CutPrefix(a, "-routes-urls="); ok {
			address = v
		}
	}
	u, err := url.Parse(address)
	if err != nil || u.Hostname() != "127.0.0.1" {
		t.Fatalf("-routes-urls=%s: want an address on the loopback interface: %v", address, err)
	}
	n, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil {
		t.Fatalf("-routes-urls=%s: %v", address, err)
	}
	if i, j := slices.Index(spec.Args, "-kubernetes"), slices.Index(spec.Args, "-kubernetes=false"); i > j || j < 0 {
		t.Errorf("the proxy reads the cluster itself: arguments %q", spec.Args)
	}
	return address, uint16(n)
}

// poll sends one request of a Skipper. It reports whatever would make a Skipper lose its table or go back in time.
func (p *walkProxy) poll(ctx context.Context) {
	body, header, status, err := p.download(ctx)
	if ctx.Err() != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.polls++
	switch {
	case err != nil:
		p.problems = append(p.problems, "gap: "+err.Error())
	case status == http.StatusNotModified && p.etag != "":
	case status == http.StatusOK:
		p.etag = header.Get("ETag")
		p.use(body)
	default:
		p.problems = append(p.problems, fmt.Sprintf("gap: status %d: %s", status, body))
	}
}

func (p *walkProxy) download(ctx context.Context) (body string, header http.Header, status int, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url, nil)
	if err != nil {
		return "", nil, 0, err
	}
	if p.etag != "" {
		r.Header.Set("If-None-Match", p.etag)
	}
	resp, err := p.client.Do(r)
	if err != nil {
		return "", nil, 0, err
	}
	defer resp.Body.Close()
	var text bytes.Buffer
	_, err = io.Copy(&text, resp.Body)
	return text.String(), resp.Header, resp.StatusCode, err
}

var counterForm = regexp.MustCompile(`setResponseHeader\("N", "(\d+)"\)`)

// use processes a table: it must be complete, and its counter must not be lower than the previous one.
func (p *walkProxy) use(table string) {
	p.tables++
	if _, err := eskip.Parse(table); err != nil {
		p.problems = append(p.problems, "does not parse: "+err.Error())
		return
	}
	sum := sha256.Sum256([]byte(table))
	if digest := hex.EncodeToString(sum[:]); digest != digestOf(p.etag) {
		p.problems = append(p.problems, "mix: the body is not what the ETag names")
	}
	if !strings.Contains(table, "kube_shop__web__") || !strings.Contains(table, "kube_rg__shop__cart__") {
		p.problems = append(p.problems, "not whole: a table without the shop")
	}
	number := -1
	if m := counterForm.FindStringSubmatch(table); m != nil {
		number, _ = strconv.Atoi(m[1])
	}
	if number < p.number {
		p.problems = append(p.problems, fmt.Sprintf("older: change %d after change %d", number, p.number))
	}
	p.table, p.number = table, number
}

// inUse returns the current table, and its counter.
func (p *walkProxy) inUse() (table string, number int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.table, p.number
}

// stop ends the polls. It may be called repeatedly.
func (p *walkProxy) stop() {
	p.cancel()
	<-p.done
}

// check reports the errors so far.
func (p *walkProxy) check(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, problem := range p.problems {
		if i == 5 {
			t.Errorf("and %d more", len(p.problems)-i)
			break
		}
		t.Error("the proxy:", problem)
	}
	if p.polls < 100 || p.tables < 10 {
		t.Errorf("the proxy asked %d times and got %d tables, too few to say anything", p.polls, p.tables)
	}
	t.Logf("the proxy asked %d times and took %d tables", p.polls, p.tables)
}
