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
