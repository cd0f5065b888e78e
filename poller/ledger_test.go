package poller_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/poller"
)

const notFound = `ERROR Failed to get service s, 80 reason=service_not_found kind=Ingress ns=shop name=`

func TestProblemIsLoggedWhenItComesAndCountedWhenItGoes(t *testing.T) {
	const silence = "INFO Skipping rule without http definition reason=rule_without_http kind=Ingress ns=shop name="
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, rules.Options{}, ingress("a"), silent("x"))
		stop := f.run()
		if diff := cmp.Diff([]string{notFound + "a", silence + "x"}, f.log.take()); diff != "" {
			t.Errorf("first read (-want +got):\n%s", diff)
		}
		for i, step := range []struct {
			before func()
			want   []string // only new problems
		}{
			{func() {}, nil}, // nothing is compiled
			{func() { f.apply(silent("z")) }, []string{silence + "z"}},
			{func() { f.apply(ingress("b")) }, []string{notFound + "b"}},
			{func() { f.apply(service) }, []string{"INFO problems resolved count=2 remaining=2"}},
		} {
			step.before()
			f.poll()
			if diff := cmp.Diff(step.want, f.log.take()); diff != "" {
				t.Errorf("step %d (-want +got):\n%s", i, diff)
			}
		}
		stop()
	})
}

func TestProblemIsKnownSinceTheReadThatFirstHadIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, rules.Options{}, ingress("b"))
		first := time.Now()
		defer f.run()()
		f.apply(ingress("a"))
		f.poll()
		second := time.Now()
		f.poll()
		f.apply(silent("x"), service) // everything is compiled again
		f.cluster.Delete(kube.Ref{Kind: kube.KindService, Namespace: "shop", Name: "s"})
		f.poll()
		owner := func(name string) kube.Ref { return kube.Ref{Kind: kube.KindIngress, Namespace: "shop", Name: name} }
		missing := func(name string) rules.Problem {
			return rules.Problem{
				Owner: owner(name), Reason: rules.ServiceNotFound, Severity: rules.Error, Message: "Failed to get service s, 80",
			}
		}
		want := []poller.Problem{
			{Problem: missing("a"), Since: second},
			{Problem: missing("b"), Since: first},
			{Problem: rules.Problem{
				Owner: owner("x"), Reason: rules.RuleWithoutHTTP, Message: "Skipping rule without http definition",
			}, Since: time.Now()},
		}
		if diff := cmp.Diff(want, f.compiler.Problems(), cmpopts.IgnoreFields(rules.Problem{}, "Detail", "About")); diff != "" {
			t.Errorf("problems (-want +got):\n%s", diff)
		}
	})
}

func TestProblemThatComesBackIsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, rules.Options{}, ingress("a"))
		defer f.run()()
		f.apply(service)
		f.poll()
		f.cluster.Delete(kube.Ref{Kind: kube.KindService, Namespace: "shop", Name: "s"})
		f.log.take()
		f.poll()
		if diff := cmp.Diff([]string{notFound + "a"}, f.log.take()); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
		if got := f.compiler.Problems(); len(got) != 1 || !got[0].Since.Equal(time.Now()) {
			t.Errorf("problems %+v, want one since now", got)
		}
	})
}

func TestProblemsAreTheCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, rules.Options{}, ingress("a"))
		if got := f.compiler.Problems(); len(got) != 0 {
			t.Errorf("problems %v before the first read", got)
		}
		defer f.run()()
		f.compiler.Problems()[0].Message = "overwritten"
		if got := f.compiler.Problems()[0].Message; got == "overwritten" {
			t.Error("a caller has changed the ledger")
		}
	})
}

func TestProblemsAreCountedByKindAndReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, rules.Options{}, ingress("a"), ingress("b"), silent("x"))
		defer f.run()()
		compare := func(series string) {
			t.Helper()
			want := "# HELP routesrv_problems Problems of objects in the last read.\n" +
				"# TYPE routesrv_problems gauge\n" + series
			if err := testutil.GatherAndCompare(f.registry, strings.NewReader(want), "routesrv_problems"); err != nil {
				t.Error(err)
			}
		}
		compare(`routesrv_problems{kind="Ingress",reason="rule_without_http"} 1
routesrv_problems{kind="Ingress",reason="service_not_found"} 2
`)
		f.cluster.Delete(kube.Ref{Kind: kube.KindIngress, Namespace: "shop", Name: "b"})
		f.cluster.Delete(kube.Ref{Kind: kube.KindIngress, Namespace: "shop", Name: "x"})
		f.poll()
		compare(`routesrv_problems{kind="Ingress",reason="service_not_found"} 1
`)
	})
}

// TestProblemsAsJSON: the JSON includes the id and the text for the team.
func TestProblemsAsJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, rules.Options{}, ingress("a"))
		defer f.run()()
		text, err := json.Marshal(f.compiler.Problems()[0].Report())
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`{"id":"`, `"owner":{"kind":"Ingress","namespace":"shop","name":"a"}`, `"severity":"error"`,
			`"text":"there is no Service \"s\" in the namespace \"shop\"`, `"since":"2000-`} {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s has no %s", text, want)
			}
		}
	})
}

func TestOneReadDoesNotFloodTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var objects []string
		for i := range 300 {
			objects = append(objects, silent(fmt.Sprintf("a%03d", i)))
		}
		for i := range 10 {
			objects = append(objects, ingress(fmt.Sprintf("z%02d", i)))
		}
		f := newFixture(t, rules.Options{}, objects...)
		defer f.run()()
		lines := f.log.take()
		if len(lines) != 201 {
			t.Fatalf("%d lines, want 200 and one that says how many are missing", len(lines))
		}
		for i := range 10 { // errors are listed first, although their owners come last
			if want := fmt.Sprintf("%sz%02d", notFound, i); lines[i] != want {
				t.Errorf("line %d is %q, want %q", i, lines[i], want)
			}
		}
		if want := "WARN " + poller.LogMoreProblems + " not_logged=110"; lines[200] != want {
			t.Errorf("last line %q, want %q", lines[200], want)
		}
		if got := f.compiler.Problems(); len(got) != 310 {
			t.Errorf("%d problems, want all 310", len(got))
		}
		f.poll()
		if lines := f.log.take(); len(lines) != 0 {
			t.Errorf("the next read logs %q, want nothing", lines)
		}
	})
}

func TestMetricsOfACompilerPassTheLinter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, rules.Options{}, ingress("a"))
		f.run()()
		problems, err := testutil.GatherAndLint(f.registry)
		if err != nil || len(problems) != 0 {
			t.Errorf("error %v, problems %v", err, problems)
		}
	})
}
