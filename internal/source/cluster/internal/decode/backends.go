package decode

import (
	"encoding/base64"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/routesrv/routesrv/kube"
)

// Field numbers of core/v1 and discovery.k8s.io/v1.
const (
	serviceSpec = 2

	serviceSpecPorts, serviceSpecType, serviceSpecExternalName = 1, 4, 10
	servicePortName, servicePortPort, servicePortTarget        = 1, 3, 4
	intOrStringType, intOrStringInt, intOrStringString         = 1, 2, 3

	endpointsSubsets                                    = 2
	subsetAddresses, subsetNotReady, subsetPorts        = 1, 2, 3
	addressIP                                           = 1
	subsetPortPort, subsetPortProtocol                  = 2, 3
	sliceEndpoints, slicePorts                          = 2, 3
	endpointAddresses, endpointConditions, endpointZone = 1, 2, 7
	conditionReady, conditionTerminating                = 1, 3
	slicePortProtocol, slicePortPort                    = 2, 3
	portName, portAppProtocol                           = 1, 4 // of both kinds of ports
	secretData, secretType                              = 2, 3
)

// decodeName reads the metadata of an object of which only the name is kept. It calls label, unless it is nil, for each label.
func decodeName(t *kube.Texts, v value, namespace, name *string, label func(key, value []byte)) error {
	return v.message(func(field protowire.Number, v value) error {
		switch {
		case field == objectMetaName:
			return v.text(t, name)
		case field == objectMetaNamespace:
			return v.shared(t, namespace)
		case field == objectMetaLabels && label != nil:
			var pairs []rawPair
			err := decodePair(v, &pairs)
			for _, p := range pairs {
				label(p.key, p.value)
			}
			return err
		}
		return nil
	})
}

func decodeService(t *kube.Texts, raw []byte) (kube.Object, error) {
	o := &kube.Service{}
	err := message(raw, func(field protowire.Number, v value) error {
		switch field {
		case objectMetadata:
			return decodeName(t, v, &o.Namespace, &o.Name, nil)
		case serviceSpec:
			return v.message(func(field protowire.Number, f value) error {
				switch field {
				case serviceSpecType:
					return f.shared(t, &o.Type)
				case serviceSpecExternalName:
					return f.text(t, &o.ExternalName)
				case serviceSpecPorts:
					return decodeServicePort(t, f, next(t, &o.Ports, v.bytes, field))
				}
				return nil
			})
		}
		return nil
	})
	return o, err
}

func decodeServicePort(t *kube.Texts, v value, port *kube.ServicePort) error {
	port.TargetPort.Set = true // the format has no port without one
	var target struct {
		kind, number int
		name         []byte
	}
	err := v.message(func(field protowire.Number, v value) error {
		switch field {
		case servicePortName:
			return v.shared(t, &port.Name)
		case servicePortPort:
			return v.int32(&port.Port)
		case servicePortTarget:
			return v.message(func(field protowire.Number, v value) error {
				switch field {
				case intOrStringType:
					target.kind = int(v.number)
					return v.want(protowire.VarintType)
				case intOrStringInt:
					return v.int32(&target.number)
				case intOrStringString:
					target.name = v.bytes
					return v.want(protowire.BytesType)
				}
				return nil
			})
		}
		return nil
	})
	if target.kind == int(intstr.String) {
		port.TargetPort.IsName = true
		t.Share(&port.TargetPort.Name, target.name)
	} else {
		port.TargetPort.Number = target.number
	}
	return err
}

func decodeEndpoints(t *kube.Texts, raw []byte) (kube.Object, error) {
	o := &kube.Endpoints{}
	err := message(raw, func(field protowire.Number, v value) error {
		switch field {
		case objectMetadata:
			return decodeName(t, v, &o.Namespace, &o.Name, nil)
		case endpointsSubsets:
			return decodeSubset(t, v, next(t, &o.Subsets, raw, field))
		}
		return nil
	})
	return o, err
}

func decodeSubset(t *kube.Texts, v value, subset *kube.Subset) error {
	subset.Ports = make([]kube.EndpointPort, 0, count(v.bytes, subsetPorts))
	return v.message(func(field protowire.Number, f value) error {
		switch field {
		case subsetAddresses:
			ip := next(t, &subset.Addresses, v.bytes, field)
			return f.message(func(field protowire.Number, v value) error {
				if field != addressIP {
					return nil
				}
				return v.text(t, ip)
			})
		case subsetNotReady:
			subset.NotReady++
			return f.message(func(protowire.Number, value) error { return nil })
		case subsetPorts:
			return decodePort(t, f, next(t, &subset.Ports, v.bytes, field), subsetPortPort, subsetPortProtocol)
		}
		return nil
	})
}

// decodePort reads a port of Endpoints or of an EndpointSlice, which differ only in two field numbers.
func decodePort(t *kube.Texts, v value, port *kube.EndpointPort, number, protocol protowire.Number) error {
	return v.message(func(field protowire.Number, v value) error {
		switch field {
		case portName:
			return v.shared(t, &port.Name)
		case number:
			return v.int32(&port.Port)
		case protocol:
			return v.shared(t, &port.Protocol)
		case portAppProtocol:
			return v.shared(t, &port.AppProtocol)
		}
		return nil
	})
}

func decodeEndpointSlice(t *kube.Texts, raw []byte) (kube.Object, error) {
	ports := count(raw, slicePorts)
	o := &kube.EndpointSlice{NoPorts: ports == 0, Ports: make([]kube.EndpointPort, 0, ports)}
	err := message(raw, func(field protowire.Number, v value) error {
		switch field {
		case objectMetadata:
			return decodeName(t, v, &o.Namespace, &o.Name, func(key, value []byte) {
				if string(key) == kube.ServiceNameLabel {
					t.Set(&o.Service, value)
				}
			})
		case sliceEndpoints:
			return decodeSliceEndpoint(t, v, next(t, &o.Endpoints, raw, field))
		case slicePorts:
			return decodePort(t, v, next(t, &o.Ports, raw, field), slicePortPort, slicePortProtocol)
		}
		return nil
	})
	return o, err
}

func decodeSliceEndpoint(t *kube.Texts, v value, endpoint *kube.SliceEndpoint) error {
	endpoint.Ready, endpoint.NoAddress = true, true
	return v.message(func(field protowire.Number, v value) error {
		switch field {
		case endpointAddresses:
			if !endpoint.NoAddress {
				return v.want(protowire.BytesType)
			}
			endpoint.NoAddress = false
			return v.text(t, &endpoint.Address)
		case endpointZone:
			return v.shared(t, &endpoint.Zone)
		case endpointConditions:
			return v.message(func(field protowire.Number, v value) error {
				switch field {
				case conditionReady:
					return v.bool(&endpoint.Ready)
				case conditionTerminating:
					return v.bool(&endpoint.Terminating)
				}
				return nil
			})
		}
		return nil
	})
}

// decodeSecret copies the key by itself, so that the memory of the texts, which is used again, does not have it.
func decodeSecret(t *kube.Texts, raw []byte) (kube.Object, error) {
	o := &kube.Secret{}
	err := message(raw, func(field protowire.Number, v value) error {
		switch field {
		case objectMetadata:
			return decodeName(t, v, &o.Namespace, &o.Name, nil)
		case secretType:
			return v.shared(t, &o.Type)
		case secretData:
			var pairs []rawPair
			err := decodePair(v, &pairs)
			for _, p := range pairs {
				switch string(p.key) {
				case "tls.crt":
					o.Cert = base64.StdEncoding.EncodeToString(p.value)
				case "tls.key":
					o.Key = base64.StdEncoding.EncodeToString(p.value)
				}
			}
			return err
		}
		return nil
	})
	return o, err
}
