package options_test

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/routesrv/routesrv/app/options"
)

func parseWebhook(args []string, env options.Env) (*options.RouteServer, []*options.Error, error) {
	return parseWith(&cobra.Command{Use: "webhook", Args: cobra.NoArgs}, options.WebhookFlags, args, env)
}

func TestWebhook(t *testing.T) {
	c, warnings, err := parseWebhook([]string{"-kubernetes", "-tls-cert=c", "-tls-key=k"}, options.Env{})
	if err != nil || len(warnings) != 0 {
		t.Fatal(err, warnings)
	}
	if !c.Server.TLS.Enable || c.Server.Address != options.DefaultWebhookAddress {
		t.Errorf("TLS %v at %s", c.Server.TLS.Enable, c.Server.Address)
	}
	if c, _, err = parseWebhook([]string{"-kubernetes", "-tls-cert=c", "-tls-key=k", "-address=:1"}, options.Env{}); err != nil || c.Server.Address != ":1" {
		t.Errorf("%v, %v", c, err)
	}
	for want, args := range map[string][]string{
		"set -tls-cert and -tls-key":   {"-kubernetes"},
		"-kubernetes flag required":    {"-tls-cert=c", "-tls-key=k"},
		"a webhook reads the objects":  {"--upstream=http://a", "-tls-cert=c", "-tls-key=k"},
		`unknown command "x"`:          {"-kubernetes", "-tls-cert=c", "-tls-key=k", "x"},
		"0 keys for 1 certificates of": {"-kubernetes", "-tls-cert=c"},
		"unknown flag -certificate":    {"-kubernetes", "-certificate=c"},
	} {
		if _, _, err := parseWebhook(args, options.Env{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", args, err, want)
		}
	}
}

func TestEventsWithoutAnAPI(t *testing.T) {
	for want, args := range map[string][]string{
		"--events: has no effect without -kubernetes: there is no API to write to": {"--events", "--upstream=http://a"},
	} {
		c, warnings, err := parseArgs(args, options.Env{})
		if err != nil || c.Events {
			t.Errorf("%q: %v, events %v", args, err, c != nil && c.Events)
		}
		if got := strings.Join(texts(warnings), "\n"); !strings.Contains(got, want) {
			t.Errorf("%q: warnings %s, want %s", args, got, want)
		}
	}
	if _, _, err := parseArgs([]string{"-kubernetes", "--events", "--events-namespace="}, options.Env{}); err == nil {
		t.Error("no namespace is taken")
	}
}
