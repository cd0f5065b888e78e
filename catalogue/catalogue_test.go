package catalogue_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/catalogue"
	"github.com/routesrv/routesrv/eskip"
)

func TestCheckNamesTheFirstMistake(t *testing.T) {
	known := catalogue.New(catalogue.Options{DisabledFilters: []string{"lua"}, ExtraFilters: []string{"ourFilter"}, ExtraPredicates: []string{"Ours"}})
	for text, want := range map[string]string{
		`Path("/a") -> setPath("/b") -> "http://10.0.0.1:80"`:                               "",
		`Path("/a") -> ourFilter(1, "x") -> <shunt>`:                                        "",
		`Ours("x") -> <shunt>`:                                                              "",
		`Host(/^(a[.]b[.]?(:[0-9]+)?|c[.]d[.]?(:[0-9]+)?)$/) -> <shunt>`:                    "",
		`* -> setpath("/b") -> <shunt>`:                                                     `unknown_filter: filter "setpath" not found`,
		`* -> lua("x.lua") -> <shunt>`:                                                      `unknown_filter: filter "lua" is disabled`,
		`* -> status("x") -> <shunt>`:                                                       "invalid_filter_params: status",
		`Cookies("a", "b") -> <shunt>`:                                                      `unknown_predicate: predicate "Cookies" not found`,
		`Traffic(1.5) -> <shunt>`:                                                           "invalid_predicate_params: Traffic(1.5): argument 1",
		`Cron("* * *") -> <shunt>`:                                                          "must have five fields",
		`Cron("* 24 * * *") -> <shunt>`:                                                     "must be numbers from 0 to 23",
		`Between("2021-01-01T00:00:00Z", "2020-01-01T00:00:00Z") -> <shunt>`:                "the end is not after the beginning",
		`Between("2021-01-01T00:00:00", "2022-01-01T00:00:00", "Europe/Berlin") -> <shunt>`: "",
		`TrafficSegment(0.5, 0.2) -> <shunt>`:                                               "the end is below the beginning",
		`Path("/a") && PathSubtree("/b") -> <shunt>`:                                        "other: more than one of Path",
		`Path("/a/*rest/b") -> <shunt>`:                                                     "invalid_matcher: free wildcard",
		`Host(/^(*[.]example[.]org)$/) -> <shunt>`:                                          "invalid_matcher: predicate Host",
		`PathRegexp(/(/) -> <shunt>`:                                                        "invalid_matcher: predicate PathRegexp",
		`* -> <nosuch, "http://a:80">`:                                                      "dropped: no load balancing algorithm",
		`* -> "foo"`:                                                                        "failed_backend_split",
		`* -> setpath("/b") -> <forward>`:                                                   "", // the route loses its filters
	} {
		routes, err := eskip.Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		reason, err := known.Check(routes[0])
		got := ""
		if err != nil {
			got = string(reason) + ": " + err.Error()
		}
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestSimilarNamesAreFound(t *testing.T) {
	known := catalogue.New(catalogue.Options{})
	for name, want := range map[string]string{"setpath": "setPath", "ratelimits": "ratelimit", "redirectTO": "redirectTo"} {
		if got := known.Similar(name, false); !slices.Contains(got, want) {
			t.Errorf("filters like %s: %q, want %s", name, got, want)
		}
	}
	if got := known.Similar("PathSubTree", true); !slices.Contains(got, "PathSubtree") {
		t.Errorf("predicates like PathSubTree: %q", got)
	}
	if got := known.Similar("somethingElse", false); len(got) > 0 {
		t.Errorf("filters like somethingElse: %q", got)
	}
}
