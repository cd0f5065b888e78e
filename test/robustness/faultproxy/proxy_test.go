package faultproxy_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/routesrv/routesrv/test/robustness/faultproxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// whole is the body of every answer.
var whole = strings.Repeat("0123456789", 2000)

// target answers /NAME with NAME and a long body, /zip compressed, and /stream with a line whenever there is one.
func target(t *testing.T, lines <-chan string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Path", r.URL.Path)
		switch r.URL.Path {
		case "/zip":
			w.Header().Set("Content-Encoding", "gzip")
			zw := gzip.NewWriter(w)
			fmt.Fprint(zw, whole)
			zw.Close()
		case "/stream":
			http.NewResponseController(w).Flush()
			for {
				select {
				case l := <-lines:
					fmt.Fprintln(w, l)
					http.NewResponseController(w).Flush()
				case <-r.Context().Done():
					return
				}
			}
		default:
			w.Header().Set("Content-Length", fmt.Sprint(len(whole)))
			io.WriteString(w, whole)
		}
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

func start(t *testing.T, cfg faultproxy.Config) (*faultproxy.Proxy, *http.Client) {
	t.Helper()
	cfg.Address, cfg.Seed = "127.0.0.1:0", 1
	if cfg.Target == "" {
		cfg.Target = target(t, nil)
	}
	p, err := faultproxy.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableCompression: true}}
	t.Cleanup(client.CloseIdleConnections)
	return p, client
}

func inject(t *testing.T, p *faultproxy.Proxy, f faultproxy.Fault) (end func()) {
	t.Helper()
	end, err := p.Inject(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	return end
}

type result struct {
	status int
	header http.Header
	body   string
	err    error
}

func get(client *http.Client, url string) result {
	resp, err := client.Get(url)
	if err != nil {
		return result{err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return result{resp.StatusCode, resp.Header, string(body), err}
}

// TestNothingChangesWithoutFaults, not even after faults have ended.
func TestNothingChangesWithoutFaults(t *testing.T) {
	p, client := start(t, faultproxy.Config{})
	for _, f := range []faultproxy.Fault{{}, {Name: faultproxy.Refuse}, {Name: faultproxy.Reset}, {Name: faultproxy.Status, Status: 503}} {
		if f.Name != "" {
			end := inject(t, p, f)
			if r := get(client, p.URL()+"/a"); r.err == nil && r.status == http.StatusOK {
				t.Errorf("%s: %d", f.Name, r.status)
			}
			end()
		}
		if r := get(client, p.URL()+"/a"); r.err != nil || r.status != http.StatusOK || r.body != whole || r.header.Get("X-Path") != "/a" {
			t.Errorf("after %q: %d %v, %d bytes", f.Name, r.status, r.err, len(r.body))
		}
	}
}

func TestFaultsOfOneRequest(t *testing.T) {
	for name, c := range map[string]struct {
		fault faultproxy.Fault
		path  string
		want  func(result) bool
	}{
		faultproxy.Refuse: {faultproxy.Fault{}, "/a", func(r result) bool { return errors.Is(r.err, syscall.ECONNREFUSED) }},
		faultproxy.Reset: {faultproxy.Fault{}, "/a", func(r result) bool {
			return errors.Is(r.err, syscall.ECONNRESET) || errors.Is(r.err, io.EOF) // depending on the kernel
		}},
		faultproxy.Cut: {faultproxy.Fault{Bytes: 777}, "/a", func(r result) bool {
			return errors.Is(r.err, io.ErrUnexpectedEOF) && r.body == whole[:777]
		}},
		faultproxy.HalfClose: {faultproxy.Fault{Bytes: 777}, "/a", func(r result) bool {
			return errors.Is(r.err, io.ErrUnexpectedEOF) && r.body == whole[:777]
		}},
		faultproxy.Drip:   {faultproxy.Fault{Bytes: 5000, Delay: time.Millisecond}, "/a", func(r result) bool { return r.err == nil && r.body == whole }},
		faultproxy.Delay:  {faultproxy.Fault{Delay: 10 * time.Millisecond}, "/a", func(r result) bool { return r.err == nil && r.body == whole }},
		faultproxy.Status: {faultproxy.Fault{Status: 429}, "/a", func(r result) bool { return r.status == 429 && r.err == nil }},
		faultproxy.HTML: {faultproxy.Fault{}, "/a", func(r result) bool {
			return r.status == 200 && strings.HasPrefix(r.header.Get("Content-Type"), "text/html") && strings.HasPrefix(r.body, "<!DOCTYPE")
		}},
		// A checksum detects it.
		faultproxy.Corrupt: {faultproxy.Fault{}, "/zip", func(r result) bool {
			zr, err := gzip.NewReader(strings.NewReader(r.body))
			if err == nil {
				_, err = io.ReadAll(zr)
			}
			return r.err == nil && err != nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p, client := start(t, faultproxy.Config{})
			c.fault.Name = name
			inject(t, p, c.fault)
			r := get(client, p.URL()+c.path)
			if !c.want(r) {
				t.Errorf("%d %v, %d bytes: %.40q", r.status, r.err, len(r.body), r.body)
			}
			if name != faultproxy.Refuse && p.Struck()[name] != 1 {
				t.Errorf("struck %v", p.Struck())
			}
		})
	}
}

func TestCorruptLeavesAloneWhatNobodyChecks(t *testing.T) {
	p, client := start(t, faultproxy.Config{})
	inject(t, p, faultproxy.Fault{Name: faultproxy.Corrupt})
	if r := get(client, p.URL()+"/a"); r.body != whole {
		t.Error("a body without a checksum was corrupted")
	}
	p, client = start(t, faultproxy.Config{Checked: true})
	inject(t, p, faultproxy.Fault{Name: faultproxy.Corrupt})
	different := 0
	r := get(client, p.URL()+"/a")
	for i := range r.body {
		if r.body[i] != whole[i] {
			different++
		}
	}
	if different != 1 || len(r.body) != len(whole) {
		t.Errorf("%d bytes of %d differ, want one", different, len(r.body))
	}
}

// TestDuplicateSendsAnAnswerTwice: a client that keeps reading gets it as the answer to its next request.
func TestDuplicateSendsAnAnswerTwice(t *testing.T) {
	p, _ := start(t, faultproxy.Config{})
	inject(t, p, faultproxy.Fault{Name: faultproxy.Duplicate})
	conn, err := net.Dial("tcp", p.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n")
	in := bufio.NewReader(conn)
	for range 2 {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(resp.Body); err != nil || string(body) != whole || resp.Header.Get("X-Path") != "/a" {
			t.Errorf("%d bytes, %v", len(body), err)
		}
	}
}

func TestSwapGivesTwoRequestsEachOthersAnswers(t *testing.T) {
	p, client := start(t, faultproxy.Config{})
	inject(t, p, faultproxy.Fault{Name: faultproxy.Swap})
	if r := get(client, p.URL()+"/alone"); r.header.Get("X-Path") != "/alone" || r.body != whole {
		t.Errorf("without a partner: %q %v", r.header.Get("X-Path"), r.err)
	}
	for begin := time.Now(); ; { // until both run at the same time
		var got [2]string
		var both sync.WaitGroup
		for i, path := range []string{"/a", "/b"} {
			both.Go(func() { got[i] = get(client, p.URL()+path).header.Get("X-Path") })
		}
		both.Wait()
		if got == [2]string{"/b", "/a"} {
			return
		}
		if time.Since(begin) > time.Minute {
			t.Fatalf("got %q", got)
		}
	}
}

// TestStallHoldsOpenAnswersToo: nothing is lost, only delayed.
func TestStallHoldsOpenAnswersToo(t *testing.T) {
	lines := make(chan string)
	p, client := start(t, faultproxy.Config{Target: target(t, lines)})
	resp, err := client.Get(p.URL() + "/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	in := bufio.NewReader(resp.Body)
	lines <- "before"
	if l, err := in.ReadString('\n'); l != "before\n" {
		t.Fatal(l, err)
	}
	end := inject(t, p, faultproxy.Fault{Name: faultproxy.Stall})
	lines <- "during"
	read := make(chan string, 1)
	go func() {
		l, _ := in.ReadString('\n')
		read <- l
	}()
	for begin := time.Now(); p.Struck()[faultproxy.Stall] == 0; {
		if time.Since(begin) > time.Minute {
			t.Fatal("the line did not come to the proxy")
		}
		time.Sleep(time.Millisecond)
	}
	select {
	case l := <-read:
		t.Errorf("%q came through", l)
	default:
	}
	end()
	if l := <-read; l != "during\n" {
		t.Errorf("after the end: %q", l)
	}
}

func TestHangNeverAnswers(t *testing.T) {
	p, client := start(t, faultproxy.Config{})
	inject(t, p, faultproxy.Fault{Name: faultproxy.Hang})
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		resp, err := client.Do(r)
		if err == nil {
			resp.Body.Close()
		}
		done <- err
	}()
	for begin := time.Now(); p.Struck()[faultproxy.Hang] == 0; {
		if time.Since(begin) > time.Minute {
			t.Fatal("the request did not come")
		}
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestShareAndPathChooseRequests by a seed: the same requests each time.
func TestShareAndPathChooseRequests(t *testing.T) {
	var runs [2][]int
	for i := range runs {
		p, client := start(t, faultproxy.Config{})
		inject(t, p, faultproxy.Fault{Name: faultproxy.Status, Status: 500, Share: 0.5, Path: "/x"})
		for range 40 {
			runs[i] = append(runs[i], get(client, p.URL()+"/x").status)
		}
		if r := get(client, p.URL()+"/y"); r.status != http.StatusOK {
			t.Errorf("another path: %d", r.status)
		}
	}
	if !slices.Equal(runs[0], runs[1]) {
		t.Errorf("%v\n%v", runs[0], runs[1])
	}
	if !slices.Contains(runs[0], 500) || !slices.Contains(runs[0], 200) {
		t.Errorf("not a share: %v", runs[0])
	}
}

func TestUnknownFaultsAreErrors(t *testing.T) {
	p, _ := start(t, faultproxy.Config{})
	for _, f := range []faultproxy.Fault{{Name: "nonsense"}, {Name: faultproxy.Status, Status: 200}, {Name: faultproxy.Status}} {
		if _, err := p.Inject(f); err == nil {
			t.Errorf("%+v is taken", f)
		}
	}
}

// TestOnBodyIsToldBeforeTheRest: the hook delays the following bytes.
func TestOnBodyIsToldBeforeTheRest(t *testing.T) {
	var mu sync.Mutex
	var seen []int64
	told := make(chan struct{}) // of the whole body, which nothing follows: the client need not wait for that
	p, client := start(t, faultproxy.Config{OnBody: func(r *http.Request, n int64) {
		mu.Lock()
		defer mu.Unlock()
		if seen = append(seen, n); n == int64(len(whole)) {
			close(told)
		}
	}})
	if r := get(client, p.URL()+"/a"); r.body != whole {
		t.Fatal(r.err)
	}
	select {
	case <-told:
	case <-t.Context().Done():
		t.Fatal("not told of the whole body")
	}
	mu.Lock()
	defer mu.Unlock()
	if len(seen) == 0 || seen[len(seen)-1] != int64(len(whole)) || !slices.IsSorted(seen) {
		t.Errorf("%v", seen)
	}
}

func TestCloseEndsEverything(t *testing.T) {
	p, client := start(t, faultproxy.Config{Target: target(t, make(chan string))})
	resp, err := client.Get(p.URL() + "/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	p.Close()
	if _, err := io.Copy(&bytes.Buffer{}, resp.Body); err == nil {
		t.Error("a stream goes on")
	}
	if r := get(client, p.URL()); r.err == nil {
		t.Error("it still answers")
	}
}
