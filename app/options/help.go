package options

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

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
	cmd.Flags().VisitAll(func(p *pflag.Flag) {
		flag := flagOf(p)
		if p.Hidden || flag == nil {
			return
		}
		if flag.group != last {
			last = flag.group
			b.WriteString("\n" + strings.TrimSuffix(last.name+" ("+last.about+")", " ()") + "\n")
		}
		b.WriteString("  " + header(p, flag) + "\n")
		wrap(&b, "        ", flag.Usage)
	})
	switch {
	case last.command:
		b.WriteString("\n" + commandHelp)
	case last.name != "":
		b.WriteString("\n" + settingsHelp)
	}
	_, _ = io.WriteString(w, b.String()) // cobra has no way to report it
}

// header returns the flag as help shows it: -address HOST:PORT (default :9090).
func header(p *pflag.Flag, flag *Flag) string {
	s := flag.Option()
	if p.Shorthand != "" {
		s = "-" + p.Shorthand + ", " + s
	}
	v := flag.value
	if v.kind != "bool" {
		s += " " + v.kind
	}
	if v.def != "" && !(v.kind == "bool" && v.def == "false") {
		s += " (default " + v.def + ")"
	}
	return s
}

// helpWidth is the maximum length of the lines of help, in characters.
const helpWidth = 100

// wrap writes a text in lines of at most helpWidth, each with the indent.
func wrap(b *strings.Builder, indent, s string) {
	line := indent
	for word := range strings.FieldsSeq(s) {
		if line != indent && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > helpWidth {
			b.WriteString(line + "\n")
			line = indent
		}
		if line != indent {
			line += " "
		}
		line += word
	}
	b.WriteString(line + "\n")
}
