package options

import (
	"strconv"
	"strings"

	"github.com/routesrv/routesrv/app/tracing"
)

// defaultSample is the default of the sampled share: 300 proxies that ask every 3 seconds produce one span per second.
const defaultSample = 0.01

// tracing declares the flag of traces. Headers and the sampled share come from the variables of the OpenTelemetry specification.
func (f *Flags) tracing(c *tracing.Config) {
	f.Group("Traces", "how tables come and go, for a collector of OpenTelemetry")
	f.Add("--otlp-endpoint", Parsed("URL", &c.Endpoint, "", parseCollector), "Send OpenTelemetry traces to this collector, by OTLP over "+
		"HTTP, such as http://otel-collector:4318. The variables OTEL_EXPORTER_OTLP_HEADERS and OTEL_TRACES_SAMPLER_ARG set headers and the "+
		"sampled share.")
	c.Sample = defaultSample
	f.Check(func() {
		if c.Endpoint == "" {
			return
		}
		const variable = "OTEL_TRACES_SAMPLER_ARG"
		if text := f.lookup(variable); text != "" {
			var err error
			c.Sample, err = strconv.ParseFloat(text, 64)
			if err != nil || !(c.Sample >= 0 && c.Sample <= 1) { // written this way to reject NaN
				f.failf("otlp-endpoint", "the variable %s: %s: must be in [0, 1], e.g. 0.01", variable, clip(text))
			}
		}
	})
}

// parseCollector checks the URL of a collector, and adds the path of OTLP if it has none.
func parseCollector(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	u, err := plainURL(s, "http(s)://HOST:PORT, or with the path for traces; credentials are for OTEL_EXPORTER_OTLP_HEADERS")
	if err != nil {
		return "", err
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/v1/traces"
	}
	return u.String(), nil
}
