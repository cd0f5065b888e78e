package rules

import "strings"

// hostExpr returns the regular expression for hosts: dots escaped, an optional trailing dot and port. It returns "" for no hosts.
// Nothing else is escaped, so a wildcard host gives an invalid expression, as in the reference.
func hostExpr(hosts ...string) string {
	if len(hosts) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("^(")
	for i, h := range hosts {
		if i > 0 {
			b.WriteByte('|')
		}
		b.WriteString(strings.ReplaceAll(h, ".", "[.]"))
		b.WriteString("[.]?(:[0-9]+)?")
	}
	b.WriteString(")$")
	return b.String()
}

// aboutWildcard begins the subject of the problem of a host with a wildcard.
const aboutWildcard = "wildcard "

// checkHost reports a wildcard, in words that say more than that its expression does not compile.
func (f *findings) checkHost(host string) {
	if strings.Contains(host, "*") {
		f.ownf(Problem{Reason: InvalidExpression, Severity: Warning, About: aboutWildcard + host},
			"the host %q has a wildcard, which is not supported, so proxies ignore its routes", host)
	}
}
