package conformance

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/routesrv/routesrv/catalogue"
	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/match"
)

// matchingCase is a table with requests, and the routes that the reference's router selected for them. The format also has the
// option validate_query, which has no effect here: that check comes before the router.
type matchingCase struct {
	Routes  string `json:"routes"`
	Options struct {
		IgnoreTrailingSlash bool `json:"ignore_trailing_slash"`
		NormalizeHost       bool `json:"normalize_host"`
		RFCPatchPath        bool `json:"rfc_patch_path"`
	} `json:"options"`
	InvalidRoutes map[string]match.Reason `json:"invalid_routes"`
	DroppedRoutes []string                `json:"dropped_routes"`
	Requests      []matchingRequest       `json:"requests"`
}

type matchingRequest struct {
	Method     string              `json:"method"`
	URL        string              `json:"url"`
	Host       string              `json:"host"`
	Headers    map[string][]string `json:"headers"`
	RemoteAddr string              `json:"remote_addr"`
	WantRoute  string              `json:"want_route"`
	WantParams map[string]string   `json:"want_params"`
	WantStatus int                 `json:"want_status"` // of the proxy itself, before it looks for a route
	Note       string              `json:"note"`
}

// TestMatching finds the route of each request, and the refused routes, like the reference. The cases come from
// ROUTESRV_MATCHING_DIR, a folder with *.json at any depth, or else from the checkout.
func TestMatching(t *testing.T) {
	files := matchingFiles(t)
	if len(files) == 0 {
		t.Fatal("no cases")
	}
	var passed, requests, failed int
	for _, name := range slices.Sorted(maps.Keys(files)) {
		wrong, asked := checkMatching(t, name, files[name])
		requests += asked
		if wrong {
			failed++
		} else {
			passed++
		}
	}
	fmt.Printf("matching: %d of %d cases pass, with %d requests\n", passed, passed+failed, requests)
}

func matchingFiles(t *testing.T) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	if dir := os.Getenv("ROUTESRV_MATCHING_DIR"); dir != "" {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && filepath.Ext(path) == ".json" {
				files[path] = read(t, path)
			}
			return err
		})
		if err != nil {
			t.Fatalf("cases in ROUTESRV_MATCHING_DIR: %v", err)
		}
		return files
	}
	archives, err := filepath.Glob("testdata/matching/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range archives {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range archive.Files {
			files[f.Name] = f.Data
		}
	}
	return files
}

// checkMatching reports whether a case fails, and how many requests it has.
func checkMatching(t *testing.T, name string, data []byte) (wrong bool, requests int) {
	t.Helper()
	errorf := func(format string, args ...any) {
		wrong = true
		t.Errorf(name+": "+format, args...)
	}
	var c matchingCase
	if err := json.Unmarshal(data, &c); err != nil {
		errorf("%v", err)
		return wrong, 0
	}
	routes, err := eskip.Parse(c.Routes)
	if err != nil {
		errorf("%v", err)
		return wrong, 0
	}
	table, refusals := match.New(routes, match.Options{
		IgnoreTrailingSlash: c.Options.IgnoreTrailingSlash, NormalizeHost: c.Options.NormalizeHost,
		RFCPatchPath: c.Options.RFCPatchPath,
	})
	invalid, dropped := map[string]match.Reason{}, []string{}
	for _, r := range refusals {
		switch r.Reason {
		case catalogue.Dropped:
			dropped = append(dropped, r.Route.Id)
		case match.Dead, match.Overridden: // valid in the reference
		default:
			invalid[r.Route.Id] = r.Reason
		}
	}
	slices.Sort(dropped)
	if !maps.Equal(invalid, c.InvalidRoutes) {
		errorf("invalid routes %v, want %v", invalid, c.InvalidRoutes)
	}
	if want := slices.Sorted(slices.Values(c.DroppedRoutes)); !slices.Equal(dropped, want) {
		errorf("dropped routes %v, want %v", dropped, want)
	}
	if wrong := refusedByCatalogue(routes, c); wrong != "" {
		errorf("%s", wrong)
	}
	for i, r := range c.Requests {
		got := table.Find(match.Request{
			Method: r.Method, Target: r.URL, Host: r.Host, Header: r.Headers, RemoteAddr: r.RemoteAddr,
			Time: time.Now(),
		})
		status := 0
		if got.Answer != nil {
			status = got.Answer.Status
		}
		switch {
		case status != r.WantStatus:
			errorf("request %d (%s): %s: the proxy answers %+v, want status %d", i, r.Note, r.URL, got.Answer, r.WantStatus)
		case got.Answer != nil:
		case !got.Decided():
			errorf("request %d (%s): answer %+v, %d outcomes %s, want route %q", i, r.Note, got.Answer, len(got.Outcomes), outcomeIDs(got), r.WantRoute)
		case outcomeIDs(got) != r.WantRoute:
			errorf("request %d (%s): %s %s: route %q, want %q", i, r.Note, r.Method, r.URL, outcomeIDs(got), r.WantRoute)
		case !maps.EqualFunc(got.Outcomes[0].Params, r.WantParams, sameInJSON):
			errorf("request %d (%s): %s: params %v, want %v", i, r.Note, r.URL, got.Outcomes[0].Params, r.WantParams)
		}
	}
	return wrong, len(c.Requests)
}

// refusedByCatalogue compares the check behind the problem proxy_would_reject with the case: it must find the invalid and the
// dropped routes and no others. It does not know whether the proxies ignore trailing slashes.
func refusedByCatalogue(routes []*eskip.Route, c matchingCase) string {
	known := catalogue.New(catalogue.Options{})
	refused := map[string]match.Reason{}
	for _, r := range routes {
		if reason, err := known.Check(r); err != nil {
			refused[r.Id] = reason
		} else {
			delete(refused, r.Id) // of two routes with the same id the later one counts
		}
	}
	want := maps.Clone(c.InvalidRoutes)
	if want == nil {
		want = map[string]match.Reason{}
	}
	for _, id := range c.DroppedRoutes {
		want[id] = catalogue.Dropped
	}
	if !maps.Equal(refused, want) {
		return fmt.Sprintf("the catalogue refuses %v, want %v", refused, want)
	}
	return ""
}

// sameInJSON compares with a string that was encoded as JSON, which does not preserve bytes that are not UTF-8.
func sameInJSON(got, want string) bool { return string([]rune(got)) == want }

// outcomeIDs joins the ids of the routes that may win; no route is the empty string.
func outcomeIDs(r match.Result) string {
	var ids []string
	for _, o := range r.Outcomes {
		if o.Route != nil {
			ids = append(ids, o.Route.Id)
		} else if len(r.Outcomes) > 1 {
			ids = append(ids, "no route")
		}
	}
	return strings.Join(ids, " or ")
}
