package migrate

import (
	"fmt"
	"strings"
)

// text returns NOTES.md.
func (m *migration) text() []byte {
	var b strings.Builder
	old, ns := m.in.Deployment.Name, m.in.Namespace()
	fmt.Fprintf(&b, "# From `%s` to routesrv, in namespace `%s`\n\n", old, ns)
	fmt.Fprintf(&b, "This folder puts routesrv beside the Deployment `%s`, as the Deployment `%s` with a Service of its own. Nothing that you have is changed, and\n"+
		"nobody asks the new one until you say so in step 3. Each step has its way back.\n\n", old, m.name())
	if m.Image == "" {
		b.WriteString("Before you begin, name the image that your cluster pulls, in `kustomization.yaml`:\n\n    images:\n      - name: routesrv\n" +
			"        newName: <your registry>/routesrv\n        newTag: <version>\n\n")
	}
	m.steps(&b)
	m.lists(&b)
	return []byte(b.String())
}

// steps writes the commands.
func (m *migration) steps(b *strings.Builder) {
	old, ns, a := m.in.Deployment.Name, m.in.Namespace(), &m.arguments
	scheme, certificates := "http", ""
	for _, arg := range a.args {
		if strings.HasPrefix(arg, "-enable-mtls=true") || strings.HasPrefix(arg, "--enable-tls=true") {
			scheme, certificates = "https", " --cacert CA --cert CERT --key KEY --server-name NAME"
		}
	}
	fmt.Fprintf(b, "## 1. Shadow\n\nSee what is made, and apply it. It costs the API server one more reader for each replica.\n\n")
	fmt.Fprintf(b, "    kubectl kustomize .\n    kubectl apply -k .\n    kubectl -n %s rollout status deployment/%s\n\n", ns, m.name())
	b.WriteString("Way back, as long as nobody asks the new one: `kubectl delete -k .`\n\n")

	fmt.Fprintf(b, "## 2. Compare\n\n    kubectl -n %s port-forward deployment/%s 29090:%d &\n    kubectl -n %s port-forward deployment/%s 19090:%d &\n"+
		"    routesrv diff --watch%s %s://127.0.0.1:29090/routes %s://127.0.0.1:19090/routes\n\n", ns, old, a.main, ns, m.name(), a.main, certificates, scheme, scheme)
	b.WriteString("A is the old server, B the new one. `--watch` goes on until you interrupt it, and tells what stays different. End the two port-forwards when you are done:\n" +
		"`kill %1 %2`. Let it run for a day or two; docs/migrate-from-skipper-routesrv.md says what a difference can be.\n\n")

	b.WriteString("## 3. Switch\n\n")
	if len(m.in.Services) == 0 {
		there, back := m.selectorPatch(m.in.Deployment.Spec.Selector.MatchLabels)
		b.WriteString("No Service of the old pods was given. Put the name of yours in the place of SERVICE, and compare its selector with this one first:\n\n")
		fmt.Fprintf(b, "    kubectl -n %s patch service SERVICE --type merge -p '%s'\n\n", ns, there)
		fmt.Fprintf(b, "## 4. Back\n\n    kubectl -n %s patch service SERVICE --type merge -p '%s'\n\n", ns, back)
	} else {
		for _, s := range m.in.Services {
			there, _ := m.selectorPatch(s.Spec.Selector)
			fmt.Fprintf(b, "    kubectl -n %s patch service %s --type merge -p '%s'\n", ns, s.Name, there)
		}
		fmt.Fprintf(b, "    kubectl -n %s get endpointslices -l kubernetes.io/service-name=%s\n\n", ns, m.in.Services[0].Name)
		b.WriteString("The addresses are those of the new pods now. Proxies that hold the table which is served get 304, so the switch downloads nothing.\n\n## 4. Back\n\n")
		for _, s := range m.in.Services {
			_, back := m.selectorPatch(s.Spec.Selector)
			fmt.Fprintf(b, "    kubectl -n %s patch service %s --type merge -p '%s'\n", ns, s.Name, back)
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(b, "If Helm, Argo CD or Flux own the Service, they undo the patch: make the same change where they read it.\n\n"+
		"Each proxy downloads the table once when you go back. Keep the old Deployment until you are sure: `kubectl -n %s scale deployment/%s --replicas=0` when the new\n"+
		"one has served for some days, and `--replicas=%d` before you go back.\n\n", ns, old, m.oldReplicas())
}

func (m *migration) oldReplicas() int32 {
	if r := m.in.Deployment.Spec.Replicas; r != nil {
		return *r
	}
	return 1
}

// lists writes what is not carried over, and the rights.
func (m *migration) lists(b *strings.Builder) {
	b.WriteString("## Not carried over, or otherwise\n\n")
	var rows [][2]string
	for _, n := range m.notCarried() {
		rows = append(rows, [2]string{n.What, n.Why})
	}
	if len(rows) == 0 {
		b.WriteString("Nothing.\n\n")
	} else {
		b.WriteString(table("what | why", rows) + "\n")
	}
	if m.arguments.namespace != "" {
		fmt.Fprintf(b, "The old server reads namespace `%s` only, and so does this one; its rights are for all of them. `components/namespaced` makes them narrower.\n\n", m.arguments.namespace)
	}
	b.WriteString("## Rights\n\nThe new pods have a ServiceAccount of their own, which may list Ingresses, RouteGroups, Services and ")
	if m.arguments.slices {
		b.WriteString("EndpointSlices")
	} else {
		b.WriteString("Endpoints")
	}
	b.WriteString(", and nothing else.\n")
	account := cmpOr(m.pod.ServiceAccountName, "default")
	if len(m.rights) == 0 {
		fmt.Fprintf(b, "What the old one, `%s`, may do was not given.\n", account)
		return
	}
	fmt.Fprintf(b, "The old one, `%s`, may:\n\n", account)
	for _, r := range m.rights {
		b.WriteString("- " + r + "\n")
	}
	b.WriteString("\nTake that away when nothing else uses the account: proxies that read the cluster, such as those in fallback, do.\n")
}

// notCarried returns the flags without effect, what was noted on the way, and the unused objects.
func (m *migration) notCarried() []Note {
	var all []Note
	for _, i := range m.arguments.ignored {
		all = append(all, Note{"`-" + i.Name + "`", "has no effect on a route server: " + i.Why})
	}
	all = append(all, m.notes...)
	for _, o := range m.in.Others {
		why := "it is not looked at. If it is for the old pods, make one for the new ones"
		switch kind, _, _ := strings.Cut(o, " "); kind {
		case "PodDisruptionBudget":
			why = "the base has one"
		case "HorizontalPodAutoscaler":
			why = "`components/hpa` has one, which knows what replicas send"
		case "ServiceMonitor", "PodMonitor", "PrometheusRule":
			why = "`components/metrics` has its own. The series of the old server have the same names here"
		}
		all = append(all, Note{o, why})
	}
	return all
}
