package kubetest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/test/kubetest"
)

func service(name string, n int) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":{"name":%q,"namespace":"a"},"spec":{"clusterIP":"10.0.0.%d"}}`, name, n)
}

func newSorted(t *testing.T) *kubetest.Server {
	t.Helper()
	s, err := kubetest.New(nil, kubetest.API{})
	if err != nil {
		t.Fatal(err)
	}
	s.SetRevision(100)
	return s
}

func apply(t *testing.T, s *kubetest.Server, object string) kube.Revision {
	t.Helper()
	if err := s.Apply(object); err != nil {
		t.Fatal(err)
	}
	return s.Revision()
}

func names(t *testing.T, s *kubetest.Server) (revision string, out []string) {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/services", nil))
	var l struct {
		Metadata struct{ ResourceVersion string }
		Items    []struct {
			Metadata struct{ Name string }
			Spec     struct{ ClusterIP string }
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &l); err != nil {
		t.Fatal(err)
	}
	for _, i := range l.Items {
		out = append(out, i.Metadata.Name+" "+i.Spec.ClusterIP)
	}
	return l.Metadata.ResourceVersion, out
}

// TestRestoreBringsBackAState: changes, new objects and deletions are undone, and revisions start again.
func TestRestoreBringsBackAState(t *testing.T) {
	s := newSorted(t)
	apply(t, s, service("changed", 1))
	apply(t, s, service("deleted", 1))
	r := s.Revision()
	before, want := names(t, s)
	apply(t, s, service("changed", 2))
	s.Delete(kube.Ref{Kind: kube.KindService, Namespace: "a", Name: "deleted"})
	apply(t, s, service("new", 1))
	if !s.Restore(r) {
		t.Fatal("refused")
	}
	after, got := names(t, s)
	if diff := cmp.Diff(want, got); diff != "" || before != after {
		t.Errorf("revision %s, was %s: %s", after, before, diff)
	}
	if next := apply(t, s, service("new", 2)); next != r+1 {
		t.Errorf("the next revision is %d, want %d", next, r+1)
	}
	s.Compact()
	if s.Restore(r) {
		t.Error("a revision that is compacted can be restored")
	}
}

// TestStateIsAListOfBefore: with the revision of that time.
func TestStateIsAListOfBefore(t *testing.T) {
	s := newSorted(t)
	r := apply(t, s, service("a", 1))
	apply(t, s, service("a", 2))
	apply(t, s, service("b", 1))
	s.SetConduct(kubetest.Conduct{Fault: func(*http.Request) kubetest.Fault { return kubetest.Fault{State: r} }})
	if revision, got := names(t, s); revision != fmt.Sprint(r) || !cmp.Equal(got, []string{"a 10.0.0.1"}) {
		t.Errorf("%s: %q", revision, got)
	}
	s.SetConduct(kubetest.Conduct{})
	if _, got := names(t, s); !cmp.Equal(got, []string{"a 10.0.0.2", "b 10.0.0.1"}) {
		t.Errorf("without a fault: %q", got)
	}
}

// TestConductIsToldWhatWasAnswered: with the context of the request.
func TestConductIsToldWhatWasAnswered(t *testing.T) {
	s := newSorted(t)
	type key struct{}
	var got []string
	s.SetConduct(kubetest.Conduct{Answered: func(ctx context.Context, a kubetest.Answer) {
		got = append(got, fmt.Sprint(ctx.Value(key{}), " ", a.Verb, " ", a.Kind, " ", a.Revision, " ", a.Status))
	}})
	r := httptest.NewRequest(http.MethodGet, "/api/v1/services", nil)
	s.ServeHTTP(httptest.NewRecorder(), r.WithContext(context.WithValue(r.Context(), key{}, "me")))
	r = httptest.NewRequest(http.MethodGet, kubetest.Discovery, nil)
	s.ServeHTTP(httptest.NewRecorder(), r.WithContext(context.WithValue(r.Context(), key{}, "you")))
	if want := []string{"me list Service 100 200", "you get  100 200"}; !cmp.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestListsOfKeptItemsAreThoseOfTheCodec: an object is encoded once, and the list has the same bytes as if all objects were
// encoded together.
func TestListsOfKeptItemsAreThoseOfTheCodec(t *testing.T) {
	s := newSorted(t)
	var items [][]byte
	for i := range 5 {
		text := service(fmt.Sprintf("s%d", 4-i), i)
		apply(t, s, text)
		items = append([][]byte{[]byte(text)}, items...)
	}
	apply(t, s, service("s2", 77))
	items[2] = []byte(service("s2", 77))
	want, err := kubetest.EncodeProtobuf(kube.KindService, s.Revision(), items)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Body("/api/v1/services", true, false); !bytes.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}
