package options_test

import (
	"strings"
	"testing"

	"github.com/routesrv/routesrv/app/options"
)

func TestTracingIsOffWithoutACollector(t *testing.T) {
	c, warnings := parse(t, options.Env{Environ: []string{"OTEL_EXPORTER_OTLP_HEADERS=a=b", "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318"}})
	if c.Tracing.Endpoint != "" || len(warnings) != 0 {
		t.Errorf("got %+v, warnings %q; want no traces", c.Tracing, warnings)
	}
}

func TestCollectorIsAURL(t *testing.T) {
	for given, want := range map[string]string{
		"http://collector:4318":        "http://collector:4318/v1/traces",
		"https://collector/":           "https://collector/v1/traces",
		"https://collector/otlp/spans": "https://collector/otlp/spans",
	} {
		if c, _ := parse(t, options.Env{}, "--otlp-endpoint="+given); c.Tracing.Endpoint != want || c.Tracing.Sample != 0.01 {
			t.Errorf("%s: got %+v, want %s and 0.01", given, c.Tracing, want)
		}
	}
	for _, bad := range []string{"collector:4318", "grpc://collector:4317", "http://", "http://user:hunter2@collector", "http://c?key=hunter2"} {
		_, _, err := parseArgs([]string{"--otlp-endpoint=" + bad}, options.Env{})
		if err == nil || strings.Contains(err.Error(), "user:hunter2") {
			t.Errorf("%s: got %v, want an error without the password", bad, err)
		}
	}
	if c, _ := parse(t, options.Env{Environ: []string{"OTEL_TRACES_SAMPLER_ARG=0.5"}}, "--otlp-endpoint=http://c"); c.Tracing.Sample != 0.5 {
		t.Errorf("share %v, want 0.5", c.Tracing.Sample)
	}
	for _, bad := range []string{"-0.1", "1.1", "NaN", "x"} {
		if _, _, err := parseArgs([]string{"--otlp-endpoint=http://c"}, options.Env{Environ: []string{"OTEL_TRACES_SAMPLER_ARG=" + bad}}); err == nil {
			t.Errorf("a share of %s is taken", bad)
		}
	}
}
