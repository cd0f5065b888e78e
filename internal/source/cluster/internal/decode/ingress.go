package decode

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/routesrv/routesrv/kube"
)

// Field numbers of networking.k8s.io/v1.
const (
	ingressSpec = 2

	ingressSpecDefaultBackend, ingressSpecTLS, ingressSpecRules, ingressSpecClassName = 1, 2, 3, 4

	ingressTLSHosts, ingressTLSSecretName = 1, 2

	ingressRuleHost, ingressRuleValue = 1, 2
	ingressRuleValueHTTP              = 1
	ingressHTTPPaths                  = 1

	ingressPathPath, ingressPathBackend, ingressPathType = 1, 2, 3

	ingressBackendService                            = 4
	backendServiceName, backendServicePort           = 1, 2
	backendServicePortName, backendServicePortNumber = 1, 2
)

func decodeIngress(t *kube.Texts, raw []byte) (kube.Object, error) {
	in := &kube.Ingress{Spec: &kube.IngressSpec{}}
	var meta metaReader
	err := message(raw, func(field protowire.Number, v value) error {
		switch field {
		case objectMetadata:
			return meta.decode(t, v, &in.Meta)
		case ingressSpec:
			return v.message(func(field protowire.Number, f value) error { return decodeIngressSpec(t, in.Spec, v.bytes, field, f) })
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	meta.finish(t, &in.Meta)
	return in, nil
}

func decodeIngressSpec(t *kube.Texts, spec *kube.IngressSpec, raw []byte, field protowire.Number, v value) error {
	switch field {
	case ingressSpecClassName:
		return v.shared(t, &spec.IngressClassName)
	case ingressSpecDefaultBackend:
		if spec.DefaultBackend == nil {
			spec.DefaultBackend = &kube.IngressBackend{}
		}
		return decodeIngressBackend(t, v, spec.DefaultBackend)
	case ingressSpecTLS:
		tls := next(t, &spec.TLS, raw, field)
		return v.message(func(field protowire.Number, f value) error {
			switch field {
			case ingressTLSHosts:
				return f.text(t, next(t, &tls.Hosts, v.bytes, field))
			case ingressTLSSecretName:
				return f.text(t, &tls.SecretName)
			}
			return nil
		})
	case ingressSpecRules:
		return decodeIngressRule(t, v, next(t, &spec.Rules, raw, field))
	}
	return nil
}

func decodeIngressRule(t *kube.Texts, v value, rule *kube.IngressRule) error {
	return v.message(func(field protowire.Number, v value) error {
		switch field {
		case ingressRuleHost:
			return v.text(t, &rule.Host)
		case ingressRuleValue:
			return v.message(func(field protowire.Number, v value) error {
				if field != ingressRuleValueHTTP {
					return nil
				}
				rule.HTTP = true
				return v.message(func(field protowire.Number, f value) error {
					if field != ingressHTTPPaths {
						return nil
					}
					return decodeIngressPath(t, f, next(t, &rule.Paths, v.bytes, field))
				})
			})
		}
		return nil
	})
}

func decodeIngressPath(t *kube.Texts, v value, path *kube.IngressPath) error {
	path.Backend = &kube.IngressBackend{}
	return v.message(func(field protowire.Number, v value) error {
		switch field {
		case ingressPathPath:
			return v.text(t, &path.Path)
		case ingressPathType:
			return v.shared(t, &path.PathType)
		case ingressPathBackend:
			return decodeIngressBackend(t, v, path.Backend)
		}
		return nil
	})
}

func decodeIngressBackend(t *kube.Texts, v value, backend *kube.IngressBackend) error {
	return v.message(func(field protowire.Number, v value) error {
		if field != ingressBackendService {
			return nil
		}
		return v.message(func(field protowire.Number, v value) error {
			switch field {
			case backendServiceName:
				return v.text(t, &backend.Service)
			case backendServicePort:
				return v.message(func(field protowire.Number, v value) error {
					switch field {
					case backendServicePortName:
						return v.shared(t, &backend.PortName)
					case backendServicePortNumber:
						return v.int32(&backend.PortNumber)
					}
					return nil
				})
			}
			return nil
		})
	})
}
