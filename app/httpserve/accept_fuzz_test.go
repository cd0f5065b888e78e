package httpserve_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/routesrv/routesrv/app/httpserve"
	"github.com/routesrv/routesrv/table"
)

// FuzzAccept: an acceptance that reaches the decider names a digest, came over the control socket, and
// has texts that fit into one log line.
func FuzzAccept(f *testing.F) {
	digest := strings.Repeat("ab", 32)
	for _, seed := range [][5]string{
		{"socket", "localhost", "digest=" + digest, "", ""},
		{"socket", "localhost:9911", "", "application/x-www-form-urlencoded", "digest=" + digest + "&by=a&why=b"},
		{"socket", "[::1]:9911", "digest=" + digest + "&by=%0a", "", ""},
		{"tcp", "localhost", "digest=" + digest, "", ""},
		{"socket", "evil.example.org", "digest=" + digest, "", ""},
		{"socket", "localhost", "digest=0", "", ""},
		{"socket", "localhost", "digest=" + strings.Repeat("0", 64), "", ""},
		{"socket", "localhost", "%zz", "multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=\"digest\"\r\n\r\n" + digest + "\r\n--x--"},
		{"socket", "", ";", "multipart/form-data", "--"},
	} {
		f.Add(seed[0] == "socket", seed[1], seed[2], seed[3], seed[4])
	}
	tab, err := table.New(nil, 1, time.Unix(1, 0))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, socket bool, host, query, contentType, body string) {
		h, got, log := accepting(tab, nil)
		r := httptest.NewRequest(http.MethodPost, "/guard/accept", strings.NewReader(body))
		r.Host, r.URL.RawQuery = host, query
		if socket {
			r = r.WithContext(httpserve.Peer{}.Attach(r.Context()))
		}
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
		if !socket {
			t.Error("taken over TCP")
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
