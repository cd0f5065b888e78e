package options

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// settingsHelp describes the forms and places of settings.
const settingsHelp = `A value comes from the command line, else from the environment (ROUTESRV_FLAG_ and the name in
capitals, as in ROUTESRV_FLAG_SOURCE_POLL_TIMEOUT=3000; a repeatable flag takes one value per line),
else from the file of -config-file, else it is the default; repeatable flags of Skipper, and
settings, add up. Write -name=value or -name value, with one dash or two, and a switch (bool) as
-name or -name=false. Other flags of Skipper are accepted, with a warning that says why they have no
effect.

Also read: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT (with -kubernetes-in-cluster);
HTTPS_PROXY, HTTP_PROXY and NO_PROXY (without it); SSL_CERT_FILE and SSL_CERT_DIR; GOGC, GOMEMLIMIT
and GOMAXPROCS. KUBECONFIG is not read: name the file with --kubeconfig.
`

// commandHelp describes the variables of commands that query servers.
const commandHelp = `Each flag has a variable, such as ROUTESRV_NAMESPACE; the command line overrides it.
`

// help prints the description of a command, and its flags in groups.
func help(cmd *cobra.Command, w io.Writer) {
	var b strings.Builder
	b.WriteString(strings.TrimSpace(cmd.Short+"\n\n"+cmd.Long) + "\n\nUsage:\n")
	if cmd.Runnable() {
		b.WriteString("  " + cmd.UseLine() + "\n")
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s COMMAND [flags] [arguments]\n\nCommands\n", cmd.CommandPath())
	}
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			fmt.Fprintf(&b, "  %-11s %s\n", c.Name(), c.Short)
		}
	}
	if cmd.Example != "" {
		b.WriteString("\nExamples\n" + strings.TrimRight(cmd.Example, "\n") + "\n")
	}
	var last group
	flags := new(pflag.FlagSet)
	end := func() {
		if flags.HasFlags() {
			b.WriteString("\n" + strings.TrimSuffix(last.name+" ("+last.about+")", " ()") + "\n" + flags.FlagUsagesWrapped(helpWidth))
		}
	}
	cmd.Flags().VisitAll(func(p *pflag.Flag) {
		flag := flagOf(p)
		if p.Hidden || flag == nil {
			return
		}
		if flag.group != last {
			end()
			last, flags = flag.group, new(pflag.FlagSet)
			flags.SortFlags = false
		}
		flags.AddFlag(p)
	})
	end()
	switch {
	case last.command:
		b.WriteString("\n" + commandHelp)
	case last.name != "":
		b.WriteString("\n" + settingsHelp)
	}
	_, _ = io.WriteString(w, b.String()) // cobra has no way to report it
}

// helpWidth is the maximum length of the lines about flags, in characters.
const helpWidth = 100
