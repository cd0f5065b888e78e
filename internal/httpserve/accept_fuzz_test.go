package httpserve_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/routesrv/routesrv/table"
)

// FuzzAccept: an acceptance that reaches the decider names a digest, came from the loopback interface under a loopback name, and
// has texts that fit into one log line.
func FuzzAccept(f *testing.F) {
	digest := strings.Repeat("ab", 32)
	for _, seed := range [][5]string{
		{"127.0.0.1:1", "localhost", "digest=" + digest, "", ""},
		{"127.0.0.1:1", "localhost:9911", "", "application/x-www-form-urlencoded", "digest=" + digest + "&by=a&why=b"},
		{"[::1]:1", "[::1]:9911", "digest=" + digest + "&by=%0a", "", ""},
		{"10.0.0.1:1", "localhost", "digest=" + digest, "", ""},
		{"127.0.0.1:1", "evil.example.org", "digest=" + digest, "", ""},
		{"127.0.0.1:1", "localhost", "digest=0", "", ""},
		{"127.0.0.1:1", "localhost", "digest=" + strings.Repeat("0", 64), "", ""},
		{"127.0.0.1:1", "localhost", "%zz", "multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=\"digest\"\r\n\r\n" + digest + "\r\n--x--"},
		{"nowhere", "", ";", "multipart/form-data", "--"},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3], seed[4])
	}
	tab, err := table.New(nil, 1, time.Unix(1, 0))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, remote, host, query, contentType, body string) {
		h, got, log := accepting(tab, nil)
		r := httptest.NewRequest(http.MethodPost, "/guard/accept", strings.NewReader(body))
		r.RemoteAddr, r.Host, r.URL.RawQuery = remote, host, query
		r.Header.Set("Content-Type", contentType)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if len(*got) == 0 {
			if w.Code == http.StatusOK {
				t.Errorf("200 although nobody decided: %s", w.Body)
			}
			return
		}
		a := (*got)[0]
		if peer, err := netip.ParseAddrPort(remote); err != nil || !peer.Addr().Unmap().IsLoopback() {
			t.Errorf("taken from %q", remote)
		}
		if a.Digest.IsZero() {
			t.Error("no digest")
		}
		for _, text := range []string{a.By, a.Why} {
			if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) || len(text) > 4*1000 {
				t.Errorf("text %q", text)
			}
		}
		if n := strings.Count(log.String(), "\n"); n != 1 {
			t.Errorf("%d lines in the log:\n%s", n, log)
		}
	})
}
