// Command docs writes the references that are generated from the code: docs/reference/flags.md,
// docs/reference/metrics.md, and marked parts of other documents. With -check it writes nothing and fails if a file does not match the
// code.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/app/events"
	"github.com/routesrv/routesrv/app/server"
	"github.com/routesrv/routesrv/app/sidecar"
	"github.com/routesrv/routesrv/app/webhook"
	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/source/cluster"
)

func main() {
	check := flag.Bool("check", false, "fail if a file does not match the code, and write nothing")
	flag.Parse()
	if err := run(*check); err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
		os.Exit(1)
	}
}

func run(check bool) error {
	documents, err := documentsWithParts()
	if err != nil {
		return err
	}
	documents["docs/reference/flags.md"] = writeFlags
	documents["docs/reference/metrics.md"] = writeMetrics
	var errs []error
	for name, write := range documents {
		var want bytes.Buffer
		if err := write(&want); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if !check {
			if err := os.WriteFile(name, want.Bytes(), 0o644); err != nil {
				return err
			}
			continue
		}
		if have, err := os.ReadFile(name); err != nil {
			errs = append(errs, err)
		} else if !bytes.Equal(have, want.Bytes()) {
			errs = append(errs, fmt.Errorf("%s does not match the code: run make docs", name))
		}
	}
	return errors.Join(append(errs, checkNames(), checkLinks("."), checkRunbook(), checkTests(), checkQuotes(), checkTerms(), checkBudget(), checkLanguage())...)
}

// links.go, runbook.go, tests.go, quotes.go, terms.go, budget.go and language.go have the other checks.

// cell escapes a text for a table.
func cell(text string) string {
	return strings.NewReplacer("|", "\\|", "<", "&lt;", "\n", " ").Replace(text)
}

// seriesName matches the name of a series in a document.
var seriesName = regexp.MustCompile(`\b(routesrv|dataplane|sidecar|shadow_diff)_[a-z_]+\b`)

// checkNames requires that every series named in a document exists.
func checkNames() error {
	all, err := serverSeries()
	if err != nil {
		return err
	}
	own, err := sidecarSeries()
	if err != nil {
		return err
	}
	relay, err := relaySeries()
	if err != nil {
		return err
	}
	webhook, err := webhookSeries()
	if err != nil {
		return err
	}
	all = slices.Concat(all, own, relay, webhook)
	names, err := documentFiles(".")
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, found := range seriesName.FindAllString(string(text), -1) {
			if !slices.ContainsFunc(all, func(s series) bool { return s.name == found }) {
				errs = append(errs, fmt.Errorf("%s names the series %s, which does not exist", name, found))
			}
		}
	}
	return errors.Join(errs...)
}

// noSource replaces the source: the references do not need one.
type noSource struct{}

func (noSource) Read(context.Context, kube.ReadOptions) (*kube.Snapshot, error) {
	return nil, errors.New("no source")
}

// series is a metric as described by the registry.
type series struct{ name, help, labels string }

// descPattern parses the text of a description, which is all that the library provides.
var descPattern = regexp.MustCompile(`^Desc\{fqName: "([^"]*)", help: "((?:[^"\\]|\\.)*)",(?: unit: "[^"]*",)? constLabels: \{([^}]*)\}, variableLabels: \{([^}]*)\}\}$`)

// documentedServer returns a route server with all optional features, on the registry.
func documentedServer(registry *prometheus.Registry) (*server.Server, error) {
	state, err := os.MkdirTemp("", "docs")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(state)
	return server.New(server.Config{
		Source: noSource{}, Registry: registry, StateDir: state, EnableProfile: true, MaxStreams: 1,
		Review: server.Review{TrialProxy: &url.URL{Scheme: "http", Host: "127.0.0.1:9922"}},
		Redis:  server.Shard{Namespace: "n", Name: "n"}, Valkey: server.Shard{Namespace: "n", Name: "n"},
	})
}

// documentedRelay returns a route server that serves the table of another one.
func documentedRelay(registry *prometheus.Registry) (*server.Server, error) {
	return server.New(server.Config{Registry: registry, Upstream: dataplane.Config{URLs: []string{"http://upstream"}}, MaxStreams: 1})
}

// documentedSidecar returns a dataplane-client with all optional features.
func documentedSidecar(registry *prometheus.Registry) (*sidecar.Sidecar, error) {
	return sidecar.New(sidecar.Config{Source: noSource{}, Pod: "docs", Registry: registry, EnableProfile: true})
}

// serverSeries returns the series of routesrv.
func serverSeries() ([]series, error) {
	registry := prometheus.NewRegistry()
	cluster.NewMetrics(registry)
	events.NewMetrics(registry)
	if _, err := documentedServer(registry); err != nil {
		return nil, err
	}
	return described(registry)
}

// webhookSeries returns the series that only the admission webhook has.
func webhookSeries() ([]series, error) {
	registry := prometheus.NewRegistry()
	webhook.NewMetrics(registry)
	return described(registry)
}

// relaySeries returns the series that only a relay has, without those that dataplane-client also has.
func relaySeries() ([]series, error) {
	all, err := serverSeries()
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	if _, err := documentedRelay(registry); err != nil {
		return nil, err
	}
	own, err := described(registry)
	return slices.DeleteFunc(own, func(s series) bool {
		return strings.HasPrefix(s.name, "dataplane_") || slices.Contains(all, s)
	}), err
}

// sidecarSeries returns the series that only dataplane-client has.
func sidecarSeries() ([]series, error) {
	registry := prometheus.NewRegistry()
	if _, err := documentedSidecar(registry); err != nil {
		return nil, err
	}
	all, err := described(registry)
	return slices.DeleteFunc(all, func(s series) bool { return strings.HasPrefix(s.name, "routesrv_") }), err
}

// described returns the series of a registry, sorted, except the series of the Go runtime.
func described(registry *prometheus.Registry) ([]series, error) {
	descs := make(chan *prometheus.Desc)
	go func() {
		registry.Describe(descs)
		close(descs)
	}()
	var all []series
	for d := range descs {
		m := descPattern.FindStringSubmatch(d.String())
		if m == nil {
			return nil, fmt.Errorf("description not understood: %s", d)
		}
		if !strings.HasPrefix(m[1], "go_") && !strings.HasPrefix(m[1], "process_") {
			labels := strings.FieldsFunc(m[4], func(r rune) bool { return r == ',' })
			for pair := range strings.SplitSeq(m[3], ",") {
				if name, _, found := strings.Cut(pair, "="); found {
					labels = append(labels, name)
				}
			}
			all = append(all, series{m[1], strings.ReplaceAll(m[2], `\"`, `"`), strings.Join(labels, ",")})
		}
	}
	slices.SortFunc(all, func(a, b series) int { return strings.Compare(a.name, b.name) })
	return slices.Compact(all), nil
}

const metricsIntro = `# Metrics

<!-- Generated by make docs. Do not edit. -->

What do the series mean? The support listener serves them at ` + "`/metrics`" + `, with series of the Go runtime and of the process. Labels are in parentheses. No object, host or route has its own series.
A relay has the series of the first list about serving, and the ` + "`dataplane_`" + ` series about the table.

`

const compatIntro = `
## Series of Skipper's route server

[migrate.md](../start/migrate.md#what-differs) lists the keys, and what to use instead.

`

const relayIntro = `
## Series of a relay alone

`

const webhookIntro = `
## Series of the webhook

` + "`routesrv webhook`" + ` also has the series about connections, the source and reads.

`

const sidecarIntro = `
## Series of dataplane-client

It also has the series above about the table, and, while it computes a table, those about the source, polls, problems and the guard.

`

func writeMetrics(w io.Writer) error {
	all, err := serverSeries()
	if err != nil {
		return err
	}
	own, err := sidecarSeries()
	if err != nil {
		return err
	}
	isCompat := func(s series) bool {
		return strings.HasPrefix(s.name, "routesrv_custom_") || strings.HasPrefix(s.name, "routesrv_backend_")
	}
	io.WriteString(w, metricsIntro)
	writeSeries(w, slices.DeleteFunc(slices.Clone(all), isCompat))
	io.WriteString(w, compatIntro)
	writeSeries(w, slices.DeleteFunc(slices.Clone(all), func(s series) bool { return !isCompat(s) }))
	relay, err := relaySeries()
	if err != nil {
		return err
	}
	if len(relay) > 0 {
		io.WriteString(w, relayIntro)
		writeSeries(w, relay)
	}
	webhook, err := webhookSeries()
	if err != nil {
		return err
	}
	io.WriteString(w, webhookIntro)
	writeSeries(w, webhook)
	io.WriteString(w, sidecarIntro)
	var same []string
	own = slices.DeleteFunc(own, func(s series) bool { // dataplane-client judges and keeps as a route server does
		as := strings.Replace(s.name, "dataplane_", "routesrv_", 1)
		is := slices.ContainsFunc(all, func(o series) bool { return o.name == as && o.help == s.help })
		if is {
			same = append(same, "`"+s.name+"`")
		}
		return is
	})
	writeSeries(w, own)
	fmt.Fprintf(w, "\nThese mean the same as with `routesrv_`: %s.\n", strings.Join(same, ", "))
	return nil
}

// writeSeries writes a list: name, labels, meaning.
func writeSeries(w io.Writer, all []series) {
	for _, s := range all {
		labels := ""
		if s.labels != "" {
			labels = " (" + strings.ReplaceAll(s.labels, ",", ", ") + ")"
		}
		fmt.Fprintf(w, "- `%s`%s: %s\n", s.name, labels, s.help)
	}
}
