package server_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/table"
)

// TestRelayOfAServerWithABadLine: the relay serves all other lines, under a name of its own, and says what it left out.
func TestRelayOfAServerWithABadLine(t *testing.T) {
	const text = "a: Path(\"/a\") -> <shunt>;\nm: * -> \"http://a\"b\";\nn: * -> \"http\n://b\";\nz: Path(\"/z\") -> <shunt>;"
	upstream := otherServer(t, text)
	f := startRelay(t, nil, upstream)
	f.ready()
	want := table.Of(mustRoutes(t, "a: Path(\"/a\") -> <shunt>;\nn: * -> \"http\\n://b\";\nz: Path(\"/z\") -> <shunt>;"), 0, time.Time{})
	got := f.get("/routes")
	if got.body != string(want.Text()) || !strings.Contains(got.header.Get("Etag"), want.Digest().String()) {
		t.Errorf("serves %s\n%s", got.header.Get("Etag"), got.body)
	}
	if again := f.get("/routes", "If-None-Match: "+got.header.Get("Etag")); again.status != http.StatusNotModified {
		t.Errorf("status %d for the own name", again.status)
	}
	f.logged("parts of the table are no routes")
	if !strings.Contains(f.metrics(), "\ndataplane_table_left_out 1\n") {
		t.Error("no metric shows what is left out")
	}
	if status := f.request(http.MethodGet, f.support, "/status").body; !strings.Contains(status, `"left_out": 1`) {
		t.Errorf("status: %s", status)
	}
}

func mustRoutes(t *testing.T, text string) table.List {
	t.Helper()
	routes, err := table.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	all, err := table.New(routes, 0, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return all.Routes()
}

// otherServer is a route server of another kind with a table that never changes. Its ETag is the SHA-256 of the text, as of the reference.
func otherServer(t *testing.T, text string) (address string) {
	t.Helper()
	tag := fmt.Sprintf(`"%x"`, sha256.Sum256([]byte(text)))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Etag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}
