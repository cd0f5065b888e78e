package migrate

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// rolesOf returns the roles that bindings give to a ServiceAccount.
func rolesOf(bindings []Binding, namespace, account string) []rbacv1.RoleRef {
	var roles []rbacv1.RoleRef
	for _, b := range bindings {
		if b.gives(namespace, account) && !slices.Contains(roles, b.Role) {
			roles = append(roles, b.Role)
		}
	}
	return roles
}

// gives reports whether a binding applies to a ServiceAccount, by its name or through its groups of ServiceAccounts.
func (b Binding) gives(namespace, account string) bool {
	return slices.ContainsFunc(b.Subjects, func(s rbacv1.Subject) bool {
		switch s.Kind {
		case rbacv1.ServiceAccountKind:
			in := s.Namespace
			if in == "" {
				in = b.Namespace
			}
			return s.Name == cmpOr(account, "default") && in == namespace
		case rbacv1.GroupKind:
			return s.Name == "system:serviceaccounts" || s.Name == "system:serviceaccounts:"+namespace
		}
		return false
	})
}

// needed are the rights of the base: list, for these groups and resources.
var needed = []string{"networking.k8s.io/ingresses", "zalando.org/routegroups", "/services", "discovery.k8s.io/endpointslices", "/endpoints"}

// rights describes what the old ServiceAccount may do, a line for each rule, and which of it routesrv does not need.
func (in *Input) rights(account string) []string {
	var lines []string
	for _, b := range in.Bindings {
		if !b.gives(in.Namespace(), account) {
			continue
		}
		rules, known := in.ClusterRoles[b.Role.Name]
		if b.Role.Kind == "Role" {
			rules, known = in.Roles[b.Role.Name]
		}
		where := "in all namespaces"
		if b.Namespace != "" {
			where = "in namespace `" + b.Namespace + "`"
		}
		if !known {
			lines = append(lines, fmt.Sprintf("%s `%s`, %s: its rules are not known here", b.Role.Kind, b.Role.Name, where))
		}
		for _, r := range rules {
			lines = append(lines, fmt.Sprintf("%s `%s`, %s: %s", b.Role.Kind, b.Role.Name, where, rule(r)))
		}
	}
	return lines
}

// rule describes what a rule allows, and whether routesrv needs it.
func rule(r rbacv1.PolicyRule) string {
	if len(r.NonResourceURLs) > 0 {
		return fmt.Sprintf("%s %s. Not needed.", strings.Join(r.Verbs, ", "), strings.Join(r.NonResourceURLs, ", "))
	}
	var needs, names []string
	for _, group := range r.APIGroups {
		for _, resource := range r.Resources {
			name := strings.TrimPrefix(group+"/"+resource, "/")
			if i := strings.IndexByte(resource, '/'); i >= 0 && group == "" {
				name = resource
			}
			names = append(names, name)
			if slices.Contains(needed, group+"/"+resource) {
				needs = append(needs, name)
			}
		}
	}
	text := fmt.Sprintf("%s: %s.", strings.Join(r.Verbs, ", "), strings.Join(names, ", "))
	lists := slices.Contains(r.Verbs, "list") || slices.Contains(r.Verbs, "*")
	switch {
	case slices.Contains(names, "secrets") || slices.Contains(r.Resources, "*"):
		text += " It can read Secrets. routesrv cannot."
	case slices.ContainsFunc(r.Verbs, func(v string) bool { return slices.Contains([]string{"create", "update", "patch", "delete", "*"}, v) }):
		text += " It can write. routesrv cannot."
	case len(needs) == len(names) && lists && len(r.Verbs) == 1:
		text += " The same."
	case len(needs) > 0 && lists:
		text += " Of this routesrv has list of " + strings.Join(needs, ", ") + "."
	default:
		text += " Not needed."
	}
	return text
}
