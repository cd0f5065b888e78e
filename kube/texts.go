package kube

// Texts stores equal texts of objects once: namespaces, labels, filters and zones repeat in thousands. The zero value is ready.
type Texts struct{ known map[string]string }

const maxTexts = 16_384

// Share replaces the texts of an object, which nothing else uses yet, with equal texts of earlier objects.
func (t *Texts) Share(o Object) {
	if t.known == nil || len(t.known) > maxTexts {
		t.known = make(map[string]string)
	}
	switch o := o.(type) {
	case *Ingress:
		t.meta(&o.Meta)
		if o.Spec == nil {
			return
		}
		for _, r := range o.Spec.Rules {
			for i := range r.Paths {
				p := &r.Paths[i]
				if t.share(&p.Path, &p.PathType); p.Backend != nil {
					t.share(&p.Backend.Service, &p.Backend.PortName)
				}
			}
		}
	case *RouteGroup:
		t.meta(&o.Meta)
		if o.Spec == nil {
			return
		}
		for _, r := range o.Spec.Routes {
			for _, list := range [...][]string{r.Filters, r.Predicates, r.Methods} {
				for i := range list {
					t.share(&list[i])
				}
			}
		}
	case *Service:
		t.share(&o.Namespace, &o.Type)
		for i := range o.Ports {
			t.share(&o.Ports[i].Name, &o.Ports[i].TargetPort.Name)
		}
	case *EndpointSlice:
		t.share(&o.Namespace)
		for i := range o.Ports {
			p := &o.Ports[i]
			t.share(&p.Name, &p.Protocol, &p.AppProtocol)
		}
		for i := range o.Endpoints {
			t.share(&o.Endpoints[i].Zone)
		}
	}
}

func (t *Texts) meta(m *Meta) {
	t.share(&m.Namespace, &m.Changed)
	for _, pairs := range [...]Pairs{m.Annotations, m.Labels} {
		for i := range pairs {
			t.share(&pairs[i].Key, &pairs[i].Value)
		}
	}
}

func (t *Texts) share(texts ...*string) {
	for _, s := range texts {
		if known, ok := t.known[*s]; ok {
			*s = known
		} else {
			t.known[*s] = *s
		}
	}
}
