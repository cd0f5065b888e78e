package kubetest_test

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/test/kubetest"
)

// lines opens a watch and returns its lines.
func lines(t *testing.T, url string) <-chan string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	out := make(chan string)
	go func() {
		defer close(out)
		defer resp.Body.Close()
		for s := bufio.NewScanner(resp.Body); s.Scan(); {
			select {
			case out <- s.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

func next(t *testing.T, lines <-chan string) string {
	t.Helper()
	select {
	case l, ok := <-lines:
		if !ok {
			t.Fatal("the watch has ended")
		}
		return l
	case <-time.After(10 * time.Second):
		t.Fatal("nothing comes")
	}
	return ""
}

// A watch behaves like a watch of a real server; the e2e tests show how.
func TestAWatchTellsWhatHappens(t *testing.T) {
	s, err := kubetest.New([]byte(cluster), kubetest.API{})
	if err != nil {
		t.Fatal(err)
	}
	s.SetRevision(10)
	path := s.Start(t) + "/api/v1/services?watch=true&allowWatchBookmarks=true"
	all := lines(t, path+"&resourceVersion=10")
	selected := lines(t, path+"&resourceVersion=10&labelSelector=app%3Dx")
	want := func(from <-chan string, parts ...string) {
		t.Helper()
		got := next(t, from)
		for _, p := range parts {
			if !strings.Contains(got, p) {
				t.Errorf("got %s, want %q in it", got, p)
			}
		}
	}
	if err := s.Apply("kind: Service\nmetadata: {name: b}\nspec: {ports: [{port: 81}]}"); err != nil {
		t.Fatal(err)
	}
	want(all, `"type":"MODIFIED"`, `"name":"b"`, `"resourceVersion":"11"`)
	want(selected, `"type":"DELETED"`, `"name":"b"`, `"resourceVersion":"11"`) // it has lost its label
	s.Delete(kube.Ref{Kind: kube.KindService, Namespace: "other", Name: "a"})
	want(all, `"type":"DELETED"`, `"name":"a"`, `"resourceVersion":"12"`)
	s.Bookmark()
	want(all, `"type":"BOOKMARK"`, `"resourceVersion":"12"`)
	want(selected, `"type":"BOOKMARK"`, `"resourceVersion":"12"`)

	s.Compact()
	want(lines(t, path+"&resourceVersion=11"), `"type":"ERROR"`, `"code":410`)
	s.DropWatches("/api/v1/services")
	for l := range all {
		t.Errorf("a dropped watch goes on: %s", l)
	}
}

func TestRevisionRisesWithEachWrite(t *testing.T) {
	s, err := kubetest.New([]byte(cluster), kubetest.API{})
	if err != nil {
		t.Fatal(err)
	}
	s.SetRevision(7)
	s.Delete(kube.Ref{Kind: kube.KindService, Name: "b"})
	snap, err := s.Read(t.Context(), kube.ReadOptions{})
	if err != nil || snap.Revision != 8 || len(snap.Services) != 1 {
		t.Errorf("got %+v, %v, want revision 8 and one service", snap, err)
	}
	s.SetFault("/api/v1/services", kubetest.Fault{Status: http.StatusInternalServerError, Times: 1})
	if _, err := s.Read(t.Context(), kube.ReadOptions{}); err == nil {
		t.Error("a fault does not fail the read")
	}
}
