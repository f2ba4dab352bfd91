"""What runs pipelines elsewhere, made of their files: manifests of Kubernetes."""
